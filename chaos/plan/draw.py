"""Plans drawn by seed: every kind of fault comes, and each seed prefers a few of them.

If all kinds were equally likely, all runs would look the same. If few kinds come often, they meet each other in ways
that are rare in a mixture. So a seed prefers OWN_KINDS kinds, and most of its faults are of these. One of them follows
from the seed's number. So every kind is preferred by one of as many seeds in a row as there are kinds. Some faults come
as a storm: harmless apart, but close together (a leader is paused, and cut off before it wakes).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from chaos.plan.fault_plan import KINDS, Fault, FaultPlan, Value, kinds_of

FIRST_S: Final = 3.0
#: The time from the begin of the last fault to the end of the load, so that its effects are still under load.
LAST_S: Final = 4.0
GAP_S: Final = 2.5
OWN_KINDS: Final = 4
OWN_SHARE: Final = 0.8
STORM_SHARE: Final = 0.2
#: Storms as lines of a plan. Moments count from the storm's begin. The time from one fault to the next is drawn, from
#: nothing to twice the time of the lines.
STORMS: Final = (
    ("0 delay *-* for=4 low=0.02 high=0.08", "0.5 pause leader for=1.4", "0.6 partition leader|* for=2.5"),
    (
        "0 slow * for=3 by=1.5",
        "0.001 slow leader for=3 by=0",
        "1.2 power leader for=4 unsynced=lost",
        "1.201 power * for=0.3 unsynced=lost",
    ),
    ("0 slow * for=2 by=0.05", "0.5 power * for=0.2 unsynced=torn"),
    ("0 cut leader>* for=2", "0.3 pause follower for=0.6"),
    ("0 crash leader for=0.5 operation=12 files=any", "0.2 power follower for=0.4 unsynced=torn", "0.4 kill * for=0.2"),
    ("0 pause leader for=1", "0.3 jump leader for=4 by=0.4", "0.5 kill follower for=1"),
    ("0 transfer follower for=0.1", "0.03 kill leader for=1"),
    ("0 transfer follower for=0.1", "3 transfer follower for=0.1", "6 kill leader for=0.5"),
    (
        "0 crash leader for=0.2 operation=3 files=hours",
        "0.2 crash follower for=0.2 operation=2 files=hours",
        "3 crash * for=0.2 operation=6 files=hours",
    ),
    ("0 stop * for=0.3", "0.1 kill leader for=0.5"),
    (
        "0 times follower for=0.2 to=long",
        "2 times leader for=0.2 to=long",
        "6 partition leader|* for=3",
        "6.1 times follower for=0.05 to=short",
    ),
    ("0 fail leader for=0.3 errno=EIO operation=sync", "0.4 power * for=0.3 unsynced=lost"),
    ("0 stranger * for=4 knows=nodes", "0.5 wipe follower for=0.3", "1 kill leader for=0.5"),
    ("0 stranger leader for=3 knows=cluster", "0.1 stranger follower for=3 knows=cluster", "2.5 pause leader for=1.4"),
)
FIVE_NODES_EVERY: Final = 5
ALL_CLOCKS_S: Final = 50.0
#: The share of seeds in which all clocks jump together. It is small, because the checks of time say little there.
ALL_CLOCKS_SHARE: Final = 0.06
#: The share of seeds with two builds side by side. Seeds that prefer the kind `version` have them too.
VERSIONS_SHARE: Final = 0.12
#: The share of seeds beside a crowd (chaos/simulator/load/crowd.py), and how many rows each stored row stands for.
CROWD_SHARE: Final = 0.03
CROWD_WEIGHT: Final = 2_000
#: How many hours ahead the crowd's first hour is, and how many hours it has. At a moment between the two
#: CROWD_PASSES_S, seconds after the load's begin, all clocks jump past some or all of these hours.
CROWD_FIRST_HOUR: Final = 48
CROWD_HOURS: Final = 3_000
CROWD_PASSES_S: Final = (8.0, 20.0)
#: Kinds that end a term: at least one of these is in every plan.
_ENDS_TERM: Final = ("kill", "power", "pause", "stop", "partition", "transfer")


def draw_plan(seed: int, seconds: float, nodes: int | None = None) -> FaultPlan:
    """The plan of a seed, a function of the arguments alone. `seconds` is the length of the load, at least 10. The
    default for `nodes` is five with every fifth seed, else three."""
    assert seconds >= 10, f"{seconds} s leave no room for faults"
    nodes = nodes or (5 if seed % FIVE_NODES_EVERY == FIVE_NODES_EVERY - 1 else 3)
    chance = random.Random(f"plan {seed}")
    kinds = drawn_kinds()
    own = {kinds[seed % len(kinds)], *chance.sample(kinds, OWN_KINDS - 1)}
    faults = [_draw(chance, chance.choice(_ENDS_TERM), _moment(chance, seconds), nodes, hits="leader")]
    faults.append(_draw(chance, kinds[seed % len(kinds)], _moment(chance, seconds), nodes))
    at_s = FIRST_S + chance.expovariate(1 / GAP_S)
    if chance.random() < ALL_CLOCKS_SHARE and seconds >= ALL_CLOCKS_S:
        by_s = round(chance.uniform(1_000, 7_000), 3)
        faults.append(Fault(FIRST_S, "jump", "*", round(seconds * chance.uniform(0.5, 0.7), 3), (("by", by_s),)))
    while at_s < seconds - LAST_S:
        if chance.random() < STORM_SHARE:
            faults += _storm(chance, at_s, seconds)
        kind = chance.choice(sorted(own)) if chance.random() < OWN_SHARE else chance.choice(kinds)
        faults.append(_draw(chance, kind, at_s, nodes))
        at_s += chance.expovariate(1 / GAP_S)
    older = 0
    if "version" in own or chance.random() < VERSIONS_SHARE:
        older = chance.choice([nodes, nodes, chance.randint(1, nodes)])
        faults += _upgrade(chance, older, seconds)
    crowd = CROWD_WEIGHT if chance.random() < CROWD_SHARE and seconds >= ALL_CLOCKS_S else 0
    if crowd:
        faults = [fault for fault in faults if (fault.kind, fault.target) != ("jump", "*")]
        faults.append(_pass_hours(chance, seconds))
    return FaultPlan(seed, nodes, seconds, tuple(sorted(faults, key=lambda fault: fault.at_s)), crowd, older)


def drawn_kinds() -> list[str]:
    """The kinds of which a seed may draw faults. The others come only in storms."""
    return [kind for kind in kinds_of("simulator") if KINDS[kind].drawn]


def _pass_hours(chance: random.Random, seconds: float) -> Fault:
    """Draw a jump of all clocks past all or some of a crowd's hours, until the load ends. By the new time these hours
    are over, and each has a message that is due."""
    at_s = round(chance.uniform(*CROWD_PASSES_S), 3)
    hours = CROWD_FIRST_HOUR + CROWD_HOURS * chance.choice([1.0, 1.0, chance.random()])
    return Fault(at_s, "jump", "*", round(seconds - at_s, 3), (("by", round(3600 * hours, 3)),))


def _upgrade(chance: random.Random, older: int, seconds: float) -> list[Fault]:
    """Draw the changes of the first `older` nodes to this build, in any order. In half of the plans one of these nodes
    goes back to the build before, and changes again. If the level of the cluster has risen by then, the build before is
    refused."""
    order = [f"n{number}" for number in range(1, older + 1)]
    chance.shuffle(order)
    steps = [(node, "newer") for node in order]
    if chance.random() < 0.5:
        back = chance.randrange(older)
        steps.insert(chance.randint(back + 1, older), (order[back], "older"))
        steps.insert(chance.randint(steps.index((order[back], "older")) + 1, len(steps)), (order[back], "newer"))
    moments = sorted(_moment(chance, seconds) for _ in steps)
    return [
        Fault(round(at_s, 3), "version", node, round(_DOWN(chance), 3), (("to", to),))
        for at_s, (node, to) in zip(moments, steps, strict=True)
    ]


def _storm(chance: random.Random, at_s: float, seconds: float) -> list[Fault]:
    """Draw one of STORMS, to begin at `at_s`. Each of its faults begins LAST_S before the load's end or earlier."""
    lines = "\n".join(chance.choice(STORMS))
    faults = FaultPlan.parse(f"plan seed=0 nodes=3 seconds={seconds}\n{lines}").faults
    drawn: list[Fault] = []
    before_s = 0.0
    for fault in faults:
        at_s = min(at_s + 2 * chance.random() * (fault.at_s - before_s), seconds - LAST_S)
        before_s = fault.at_s
        drawn.append(replace(fault, at_s=round(at_s, 3)))
    return drawn


def _moment(chance: random.Random, seconds: float) -> float:
    return chance.uniform(FIRST_S, seconds - LAST_S)


def _node(chance: random.Random, nodes: int) -> str:
    """A drawn target, mostly a role: what goes wrong depends on roles."""
    return chance.choice(["leader", "leader", "follower", f"n{chance.randint(1, nodes)}"])


def _link(chance: random.Random, nodes: int) -> str:
    if chance.random() < 0.3:
        return "*-*"
    a, b = chance.sample([f"n{number}" for number in range(1, nodes + 1)], 2)
    a = chance.choice([a, "leader"])
    return f"{a}{chance.choice('>-')}{b}"


def _groups(chance: random.Random, nodes: int) -> str:
    if chance.random() < 0.5:
        return "leader|*"
    names = [f"n{number}" for number in range(1, nodes + 1)]
    chance.shuffle(names)
    cut = chance.randint(1, nodes - 1)
    groups = [names[:cut], names[cut:]] if chance.random() < 0.8 else [[name] for name in names]
    return "|".join(",".join(sorted(group)) for group in groups)


def _seconds(low: float, high: float) -> Callable[[random.Random], float]:
    """Return a function that draws a duration between `low` and `high` seconds. Its logarithm is uniform, so short ones
    are as likely as long ones."""
    return lambda chance: float(low * (high / low) ** chance.random())


_DOWN: Final = _seconds(0.05, 6)
_LASTS: Final[dict[str, Callable[[random.Random], float]]] = {
    "kill": _DOWN,
    "power": _DOWN,
    "crash": _DOWN,
    "pause": _seconds(0.05, 8),
    "stop": _DOWN,
    "wipe": _DOWN,
    "flip": _DOWN,
    "partition": _seconds(0.2, 10),
    "cut": _seconds(0.2, 10),
    "loss": _seconds(1, 8),
    "delay": _seconds(1, 8),
    "duplicate": _seconds(1, 10),
    "jump": _seconds(1, 15),
    "drift": _seconds(5, 30),
    "slow": _seconds(0.5, 8),
    "fail": _DOWN,
    "full": _seconds(1, 8),
    "transfer": _seconds(0.05, 0.1),
    "times": _DOWN,
    "stranger": _seconds(1, 8),
    "version": _DOWN,
}


def _arguments(chance: random.Random, kind: str) -> dict[str, Value]:
    match kind:
        case "times":
            return {"to": chance.choice(["usual", "short", "long"])}
        case "stranger" | "version":
            return {name: chance.choice(words) for name, words in KINDS[kind].words.items()}
        case "power":
            return {"unsynced": chance.choice(["lost", "torn"])}
        case "crash":
            files = chance.choice(["any", "hours", "journal"])
            most = chance.choice([5, 60, 400]) if files == "any" else chance.choice([3, 15])
            return {"operation": float(chance.randint(1, most)), "files": files}
        case "flip":
            return {"file": chance.choice(KINDS["flip"].words["file"]), "at": chance.random()}
        case "loss":
            return {"share": chance.choice([0.01, 0.05, 0.3])}
        case "delay":
            low = chance.choice([0.0, 0.02, 0.1, 0.3])
            return {"low": low, "high": low + chance.choice([0.01, 0.06, 0.4])}
        case "duplicate":
            return {"share": chance.choice([0.1, 0.5, 1.0])}
        case "jump":
            by_s = float(chance.choice([0.1, 0.4, 0.7, 5, 60, 3_600])) * chance.uniform(0.5, 1.0)
            return {"by": by_s * chance.choice([-1, 1])}
        case "drift":
            return {"ppm": float(chance.choice([-20_000, -400, 400, 20_000]))}
        case "slow":
            return {"by": chance.choice([0.03, 0.2, 1.0, 3.0])}
        case "fail":
            return {"errno": chance.choice(["EIO", "ENOSPC"]), "operation": chance.choice(["write", "sync"])}
    return {}


def _draw(chance: random.Random, kind: str, at_s: float, nodes: int, hits: str | None = None) -> Fault:
    shape = KINDS[kind].shape
    if shape == "link":
        target = _link(chance, nodes)
    elif shape == "groups":
        target = "leader|*" if hits else _groups(chance, nodes)
    elif kind in ("kill", "power") and hits is None and chance.random() < 0.15:
        target = "*"
    else:
        target = hits if hits and kind != "transfer" else _node(chance, nodes)
    if kind == "transfer":
        target = "follower" if hits else f"n{chance.randint(1, nodes)}"
    arguments = {
        name: round(value, 3) if isinstance(value, float) else value for name, value in _arguments(chance, kind).items()
    }
    lasts_s = round(_LASTS[kind](chance), 3)
    return Fault(round(at_s, 3), kind, target, lasts_s, tuple(sorted(arguments.items())))
