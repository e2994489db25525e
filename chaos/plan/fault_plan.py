"""Plans of faults: one language for the simulator and for real processes. People can read and edit it.

    plan seed=42 nodes=3 seconds=60
     4.250 kill       leader  for=1.500
     7.000 cut        n1>n2   for=3.000
     7.000 loss       *-*     for=4.000 share=0.100
    12.125 partition  n1|n2,n3 for=5.000

A line is a moment (seconds after the load began), a kind, a target, and arguments by name. Every fault has its own end
(`for`, seconds). Any part of a plan's lines is a plan, so a plan can be shrunk. Empty lines and text after `#` are
skipped.

On real processes a fault may also wait for the service instead of the clock, however slow the machine is:

    +1.500 jump       follower for=+3.000 by=60.000
    &1.500 pause      leader   for=3.000
    +1.500 kill       leader   for=+1.500

Such faults come in the order of their lines:

- `+1.500` waits until the faults of all earlier such lines are over and every node is ready. Then it waits until the
  service has been calm for 1.5 s.
- `&1.500` comes beside the fault on the line before, while that lasts. It waits for the begin of that fault, and then
  for 1.5 s of calm, too.
- `for=+3.000`: the fault lasts until the service has been calm for 3 s, and the faults beside it have ended.

The service is calm while no fault begins or ends, and a node leads that no fault holds down or has paused. The
load measures calm: a second is over when as many messages were handed over as are offered in a second. The load ends
after the last of these faults, when:

- the fault is over and every node is ready;
- the service has been calm for as long as the fault had waited for;
- the time that each of these faults excuses is over (chaos/history/bounds.py).

A plan is carried out by a party: the simulator, or real processes (`live`). Some kinds only one party can carry out.
The others mean the same to both. A plan with a kind that its party cannot carry out is refused as a whole.

Targets of kinds that hit a node:

- a node id;
- `leader`, or `follower` and `last`: the first and the last follower by id, at that moment;
- `followers`, all of them;
- `*`, all nodes.

Kinds that hit a link have `a>b` one way or `a-b` both ways, each side such a target. A partition names groups of such
targets, `n1|n2,n3`, or `leader|*`, where `*` is all other nodes. `render` and `parse` are inverse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, cast

Shape = Literal["node", "link", "groups"]
Party = Literal["simulator", "live"]
BOTH: Final[tuple[Party, ...]] = ("simulator", "live")
Value = float | str
Begins = Literal["", "+", "&"]
"""A fault waits for its moment, or for calm: after the faults before it (`+`), or beside the one before it (`&`)."""
Ends = Literal["", "+"]
"""A fault lasts for seconds, or until calm (`+`)."""


class PlanRefused(ValueError):
    """A plan that cannot be read. The text names the line and the allowed values."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault. `shape` says what its target names, and `sentence` what it does. `numbers` and `words` are its
    arguments: numbers within bounds, or one of several words. `parties` lists the parties (simulator, live) that can
    carry it out."""

    shape: Shape
    sentence: str
    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parties: tuple[Party, ...] = BOTH
    drawn: bool = True  # seeds draw it; False: it comes only in storms


_LIVE: Final[tuple[Party, ...]] = ("live",)
_FILES: Final = ("journal", "hours", "catalog")
_ROTTEN: Final = (*_FILES, "deliveries")

KINDS: Final[Mapping[str, Kind]] = {
    "kill": Kind("node", "kill -9; what was written but not synced stays; started again after `for`"),
    "power": Kind("node", "the power goes: what was not synced is lost, or torn", words={"unsynced": ("lost", "torn")}),
    "crash": Kind(
        "node",
        "the power goes at the n-th disk operation from now, of all or of those on such files: a checkpoint's",
        {"operation": (1, 10_000)},
        {"files": ("any", "journal", "hours")},
        ("simulator",),
    ),
    "pause": Kind("node", "SIGSTOP; SIGCONT after `for`"),
    "stop": Kind("node", "SIGTERM: drains and transfers; started again after `for`"),
    "wipe": Kind("node", "killed, its directory emptied; started again after `for`"),
    "flip": Kind(
        "node",
        "killed, one bit of a file flipped (the share `at` of the bytes stands before it), started again after `for`",
        {"at": (0, 1)},
        {"file": _FILES},
    ),
    "partition": Kind("groups", "groups that do not hear each other"),
    "cut": Kind("link", "nothing passes"),
    "loss": Kind(
        "link", "this share of what is sent is lost (in the simulator: breaks its connection)", {"share": (0, 1)}
    ),
    "delay": Kind("link", "every message takes so many seconds", {"low": (0, 10), "high": (0, 10)}),
    "duplicate": Kind("link", "this share of what a broken connection carried comes again", {"share": (0, 1)}),
    "jump": Kind("node", "the wall clock jumps by so many seconds, and back after `for`", {"by": (-7_200, 40_000_000)}),
    "drift": Kind("node", "the wall clock runs wrong", {"ppm": (-100_000, 100_000)}),
    "slow": Kind(
        "node",
        "every fsync takes so many seconds (of `followers`, on real processes: of who follows at any moment)",
        {"by": (0, 10)},
    ),
    "fail": Kind(
        "node",
        "the next such disk operation fails; the process ends by itself and is started again after `for`",
        words={"errno": ("EIO", "ENOSPC"), "operation": ("write", "sync")},
    ),
    "full": Kind("node", "no free space but the reserve's rest"),
    "transfer": Kind("node", "leadership is moved to this node on purpose (`*`, on real processes: to the best)"),
    "times": Kind(
        "node",
        "killed, and started after `for` with other times of [raft]: the usual ones, shorter or longer",
        words={"to": ("usual", "short", "long")},
        parties=("simulator",),
    ),
    "stranger": Kind(
        "node",
        "for so long a peer that nobody invited says hello to it and then any frame, by what it knows",
        words={"knows": ("nothing", "nodes", "cluster")},
        parties=("simulator",),
    ),
    "version": Kind(
        "node",
        "killed, and started after `for` as the build before, or as this one",
        words={"to": ("older", "newer")},
        parties=("simulator",),
    ),
    "drain": Kind("node", "drained by an operator, and back after `for`", parties=("simulator",), drawn=False),
    "catch": Kind(
        "node",
        "killed, or without power, a moment after it next hands over any message, or a new one, or after it next "
        "proposes a wish, an atomic batch or an operation; started again",
        words={"how": ("kill", "power"), "what": ("any", "new", "request")},
        parties=("simulator",),
        drawn=False,
    ),
    "rolling": Kind(
        "node", "stopped in order and started after `for`, of several the next when it is ready", parties=_LIVE
    ),
    "replace": Kind("node", "a new node joins the cluster, after `for` this one is removed from it", parties=_LIVE),
    "flap": Kind(
        "groups",
        "they do not hear each other for so long, hear each other for so long, and so on",
        {"every": (0.05, 60)},
        parties=_LIVE,
    ),
    "bandwidth": Kind("link", "so many thousand bits a second pass", {"kbit": (8, 10_000_000)}, parties=_LIVE),
    "torn": Kind(
        "node",
        "killed, a file ends in the middle of what was last written to it, started again after `for`",
        {"at": (0, 1)},
        {"file": _ROTTEN},
        _LIVE,
    ),
    "zero": Kind(
        "node", "killed, 4 KiB of a file are zeros, started again after `for`", {"at": (0, 1)}, {"file": _ROTTEN}, _LIVE
    ),
    "truncate": Kind(
        "node",
        "killed, a file is cut off at this share of its bytes, started again after `for`",
        {"at": (0, 1)},
        {"file": _ROTTEN},
        _LIVE,
    ),
    "oldcopy": Kind(
        "node",
        "killed, a file (or all) copied and started; after `for` killed, the copy put back, and started",
        {"at": (0, 1)},
        {"file": (*_ROTTEN, "all")},
        _LIVE,
    ),
}


def kinds_of(party: Party) -> tuple[str, ...]:
    """The kinds that this party carries out, in the order of KINDS. Draws by seed depend on that order. So a new kind
    of the simulator must stand behind the last one that the simulator has."""
    return tuple(name for name, kind in KINDS.items() if party in kind.parties)


#: The words that only a plan for the simulator may have in its first line.
_SIMULATED: Final = ("crowd", "older", "skew", "backup")
_TIME: Final = re.compile(r"([+&]?)(\d+(?:\.\d{1,3})?)")
_ARGUMENT: Final = re.compile(r"([a-z]+)=(\S+)")
_NODE: Final = r"(?:n\d+|leader|followers?|last|\*)"
_TARGET: Final[Mapping[Shape, re.Pattern[str]]] = {
    "node": re.compile(_NODE),
    "link": re.compile(rf"{_NODE}[->]{_NODE}"),
    "groups": re.compile(rf"{_NODE}(?:,{_NODE})*(?:\|{_NODE}(?:,{_NODE})*)+"),
}


@dataclass(frozen=True)
class Fault:
    """One line of a plan. Times are in seconds with at most three decimals. `arguments` are in the order of their
    names. `at_s` counts from the begin of the load, and `for_s` is the length of the fault. If `begins` is set (`+` or
    `&`), `at_s` is how long the service has to be calm before the fault begins. If `ends` is set (`+`), `for_s` is how
    long it has to be calm before the fault ends."""

    at_s: float
    kind: str
    target: str
    for_s: float
    arguments: tuple[tuple[str, Value], ...] = ()
    begins: Begins = ""
    ends: Ends = ""

    def number(self, name: str) -> float:
        """A number among the arguments."""
        value = dict(self.arguments)[name]
        assert isinstance(value, float), (name, value)
        return value

    def word(self, name: str) -> str:
        """A word among the arguments."""
        return str(dict(self.arguments)[name])

    def render(self) -> str:
        """The line of the plan."""
        rest = "".join(f" {name}={_render(value)}" for name, value in self.arguments)
        at = f"{self.begins}{self.at_s:.3f}"
        return f"{at:>7} {self.kind:<10} {self.target:<10} for={self.ends}{self.for_s:.3f}{rest}"


@dataclass(frozen=True)
class FaultPlan:
    """A plan: its faults, and the run that they hit. Faults with a moment come first, in the order of their moments.
    Faults that wait for calm follow, in the order of their lines. All other draws of the run follow from `seed`.
    `seconds` is the length of the load, or its limit where faults wait for calm.

    Only the simulator has the rest:

    - `crowd` (chaos/simulator/load/crowd.py): many other messages, each stored row standing for this many. 0: none.
    - `older`: this many nodes, from n1 on, begin as the build before.
    - `skew`: each clock is up to this many ms off from the start and runs wrong by up to 500 ppm. Clients ask and
      change more (chaos/simulator/load/asker.py). 0: neither.
    - `backup`: this many seconds after the begin of the load a backup is made. At the end another cluster is made from
      it (chaos/simulator/restorer.py). 0: none.
    """

    seed: int
    nodes: int
    seconds: float
    faults: tuple[Fault, ...] = ()
    crowd: int = 0
    older: int = 0
    skew: int = 0
    backup: float = 0.0

    @property
    def in_turn(self) -> tuple[Fault, ...]:
        """The faults that wait for calm, in the order of their lines."""
        return tuple(fault for fault in self.faults if fault.begins)

    def render(self) -> str:
        """The plan as text, with a newline at the end."""
        head = f"plan seed={self.seed} nodes={self.nodes} seconds={self.seconds:g}"
        head += f" crowd={self.crowd}" if self.crowd else ""
        head += f" older={self.older}" if self.older else ""
        head += f" skew={self.skew}" if self.skew else ""
        head += f" backup={self.backup:g}" if self.backup else ""
        return "\n".join([head, *(fault.render() for fault in self.faults)]) + "\n"

    @classmethod
    def parse(cls, text: str, party: Party | None = None) -> FaultPlan:
        """Read a plan. Raises PlanRefused, with `party` also for a kind that this party does not carry out."""
        lines = [(number, line.split("#")[0].split()) for number, line in enumerate(text.splitlines(), 1)]
        lines = [(number, words) for number, words in lines if words]
        if not lines or lines[0][1][0] != "plan":
            raise PlanRefused("a plan begins with `plan seed=S nodes=N seconds=T`")
        number, (_, *head) = lines[0]
        given = _arguments(number, head)
        if not {"seed", "nodes", "seconds"} <= set(given) <= {"seed", "nodes", "seconds", *_SIMULATED}:
            raise PlanRefused(f"line {number}: seed, nodes and seconds are needed, found {', '.join(given) or 'none'}")
        nodes = _whole(number, "nodes", given["nodes"], (1, 5))
        seconds = _number(number, "seconds", given["seconds"], (1, 86_400))
        seed = _whole(number, "seed", given["seed"], (0, 2**63))
        crowd = _whole(number, "crowd", given.get("crowd", "0"), (0, 1_000_000))
        older = _whole(number, "older", given.get("older", "0"), (0, nodes))
        skew = _whole(number, "skew", given.get("skew", "0"), (0, 500))
        backup = _number(number, "backup", given.get("backup", "0"), (0, seconds))
        if party == "live" and (theirs := [name for name in _SIMULATED if name in given]):
            raise PlanRefused(f"line {number}: {theirs[0]} is the simulator's")
        known = kinds_of(party) if party else tuple(KINDS)
        faults = tuple(_parse_fault(number, words, known) for number, words in lines[1:])
        timed = sorted((fault for fault in faults if not fault.begins), key=lambda fault: fault.at_s)
        in_turn = [fault for fault in faults if fault.begins]
        if in_turn and in_turn[0].begins == "&":
            raise PlanRefused("the first fault that waits for calm has none before it to come beside")
        if party == "simulator" and (in_turn or any(fault.ends for fault in faults)):
            raise PlanRefused("`+` and `&` are for real processes: the simulator goes by the clock")
        faults = (*timed, *in_turn)
        return cls(seed, nodes, seconds, faults, crowd, older, skew, backup)


def _render(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:.3f}"


def _arguments(number: int, words: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for word in words:
        match = _ARGUMENT.fullmatch(word)
        if match is None:
            raise PlanRefused(f"line {number}: name=value is expected, found {word!r}")
        if match[1] in given:
            raise PlanRefused(f"line {number}: {match[1]} is given twice")
        given[match[1]] = match[2]
    return given


def _whole(number: int, name: str, text: str, bounds: tuple[float, float]) -> int:
    _number(number, name, text, bounds)
    try:
        return int(text)
    except ValueError:
        raise PlanRefused(f"line {number}: {name} is a whole number, found {text}") from None


def _number(number: int, name: str, text: str, bounds: tuple[float, float]) -> float:
    try:
        value = float(text)
    except ValueError:
        raise PlanRefused(f"line {number}: {name} is a number, found {text!r}") from None
    if not bounds[0] <= value <= bounds[1]:
        raise PlanRefused(f"line {number}: {name} is {bounds[0]:g} to {bounds[1]:g}, found {text}")
    return value


def _parse_fault(number: int, words: list[str], known: Sequence[str]) -> Fault:
    if len(words) < 4:
        raise PlanRefused(f"line {number}: a moment, a kind, a target and for=seconds are needed")
    at, kind_name, target, *rest = words
    if kind_name not in known:
        raise PlanRefused(f"line {number}: kind {kind_name!r}; there are {', '.join(known)}")
    kind = KINDS[kind_name]
    moment = _TIME.fullmatch(at)
    if moment is None:
        raise PlanRefused(f"line {number}: seconds with up to three digits behind the point, found {at!r}")
    if not _TARGET[kind.shape].fullmatch(target):
        raise PlanRefused(f"line {number}: {kind_name} hits a {kind.shape}, found {target!r}")
    given = _arguments(number, rest)
    expected = {"for", *kind.numbers, *kind.words}
    if set(given) != expected:
        raise PlanRefused(f"line {number}: {kind_name} takes {', '.join(sorted(expected))}; found {', '.join(given)}")
    arguments: dict[str, Value] = {
        name: round(_number(number, name, given[name], bounds), 3) for name, bounds in kind.numbers.items()
    }
    for name, words_known in kind.words.items():
        if given[name] not in words_known:
            raise PlanRefused(f"line {number}: {name} is one of {', '.join(words_known)}; found {given[name]!r}")
        arguments[name] = given[name]
    ends: Ends = "+" if given["for"].startswith("+") else ""
    for_s = round(_number(number, "for", given["for"].removeprefix("+"), (0, 86_400)), 3)
    begins = cast(Begins, moment[1])
    return Fault(round(float(moment[2]), 3), kind_name, target, for_s, tuple(sorted(arguments.items())), begins, ends)
