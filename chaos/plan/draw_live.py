"""Plans for real processes, drawn by seed: a shuffled deck of all kinds, dealt again and again.

A real run takes minutes and is not one of thousands of seeds. So its kinds are not left to chance: each comes once
before any comes twice. Every round of the deck has other targets, arguments and lengths. Some faults come close
together, where they make more trouble. After the others the service has time to recover, because checks of time need
calm. Without recovery in between, an hour of faults would show no more than one fault.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Final

from chaos.plan.fault_plan import KINDS, Fault, FaultPlan, Value, kinds_of

FIRST_S: Final = 3.0
#: The time from the begin of the last fault to the end of the load, so that its effects are still under load.
LAST_S: Final = 5.0
#: The average time from one fault's begin to the next one's. CLOSE_SHARE of the faults come within CLOSE_S of the one
#: before.
GAP_S: Final = 5.0
CLOSE_SHARE: Final = 0.2
CLOSE_S: Final = 0.6
#: The most replacements of nodes in a plan: each needs a new node.
REPLACED_MAX: Final = 2

Seconds = Callable[[random.Random], float]


def _between(low: float, high: float) -> Seconds:
    """Return a function that draws a duration between `low` and `high` seconds. Its logarithm is uniform, so short ones
    are as likely as long ones."""
    return lambda chance: float(low * (high / low) ** chance.random())


_DOWN: Final = _between(0.2, 5)
_AWAY: Final = _between(0.5, 10)
_LASTS: Final[dict[str, Seconds]] = {
    "pause": _between(0.2, 8),
    "partition": _AWAY,
    "cut": _AWAY,
    "flap": _between(2, 8),
    "loss": _between(2, 8),
    "delay": _between(2, 8),
    "duplicate": _between(2, 8),
    "bandwidth": _between(2, 8),
    "jump": _between(2, 12),
    "drift": _between(5, 20),
    "slow": _between(1, 8),
    "full": _between(2, 8),
    "oldcopy": _between(3, 10),
    "transfer": _between(0.05, 0.1),
}
_ARGUMENTS: Final[dict[str, Callable[[random.Random], dict[str, Value]]]] = {
    "power": lambda chance: {"unsynced": chance.choice(["lost", "torn"])},
    "loss": lambda chance: {"share": chance.choice([0.01, 0.05, 0.3])},
    "duplicate": lambda chance: {"share": chance.choice([0.05, 0.3])},
    "delay": lambda chance: {"low": 0.02, "high": chance.choice([0.04, 0.08, 0.2])},
    "bandwidth": lambda chance: {"kbit": chance.choice([1_000.0, 5_000.0])},
    "flap": lambda chance: {"every": chance.choice([0.2, 0.6, 1.5])},
    "jump": lambda chance: {"by": chance.choice([-1, 1]) * chance.choice([0.1, 0.4, 0.7, 5.0, 60.0, 3_600.0])},
    "drift": lambda chance: {"ppm": float(chance.choice([-20_000, -400, 400, 20_000]))},
    "slow": lambda chance: {"by": chance.choice([0.05, 0.3, 1.0, 3.0])},
    "fail": lambda chance: {
        "errno": chance.choice(["EIO", "ENOSPC"]),
        "operation": chance.choice(["write", "sync"]),
    },
}
_ROT: Final = ("flip", "zero", "truncate", "torn", "oldcopy")
#: Kinds that may hit all nodes at once, with the share that does.
_ALL_SHARE: Final = {"kill": 0.2, "power": 0.25, "slow": 0.25, "full": 0.3, "rolling": 1.0}


def draw_plan(seed: int, seconds: float, nodes: int, kinds: Collection[str] = ()) -> FaultPlan:
    """The plan of a seed, a function of the arguments alone. It deals `kinds` over `seconds` of load.

    `kinds`: by default all that real processes can have. `seconds`: 10 or more.
    """
    assert seconds >= 10, f"{seconds} s leave no room for faults"
    chance = random.Random(f"live plan {seed}")
    dealt = [kind for kind in kinds_of("live") if not kinds or kind in kinds]
    deck: list[str] = []
    faults: list[Fault] = []
    names = [f"n{number}" for number in range(1, nodes + 1)]
    replaced = 0
    at_s = FIRST_S
    while at_s < seconds - LAST_S:
        if not deck:
            deck = chance.sample(dealt, len(dealt))
        kind = deck.pop()
        if kind != "replace":
            faults.append(_draw(chance, kind, at_s, names))
        elif replaced < REPLACED_MAX:
            # From then on use the new node's name: a target that is gone would be passed over.
            replaced += 1
            at = chance.randrange(nodes)
            faults.append(Fault(round(at_s, 3), kind, names[at], 1.0))
            names[at] = f"n{nodes + replaced}"
        close = chance.random() < CLOSE_SHARE
        at_s += chance.uniform(0.0, CLOSE_S) if close else chance.uniform(0.5, 1.5) * GAP_S / (1 - CLOSE_SHARE)
    return FaultPlan(seed, nodes, seconds, tuple(faults))


def _draw(chance: random.Random, kind: str, at_s: float, names: list[str]) -> Fault:
    shape = KINDS[kind].shape
    if shape == "link":
        target = _link(chance)
    elif shape == "groups":
        target = _groups(chance, names)
    elif chance.random() < _ALL_SHARE.get(kind, 0.0):
        target = "*"
    elif kind == "transfer":
        target = "follower"
    else:
        # Mostly by role: roles are where trouble is.
        target = chance.choice(["leader", "leader", "follower", chance.choice(names)])
    arguments = _ARGUMENTS[kind](chance) if kind in _ARGUMENTS else {}
    if kind in _ROT:
        # A place where no record ends. Round shares would hit a header, or a file's last byte, too often.
        arguments = {"at": round(chance.uniform(0.001, 0.999), 3), "file": chance.choice(KINDS[kind].words["file"])}
        if kind == "torn" and arguments["file"] == "catalog":
            arguments["file"] = "journal"  # LMDB appends nothing
    lasts_s = round(_LASTS.get(kind, _DOWN)(chance), 3)
    return Fault(round(at_s, 3), kind, target, lasts_s, tuple(sorted(arguments.items())))


#: Links are drawn by role. If a link named a node, that node might lead, so that both ends were one node. Or it might
#: be gone.
_LINKS: Final = ("leader>follower", "follower>leader", "leader-follower", "leader>*", "*>leader", "follower>*")


def _link(chance: random.Random) -> str:
    return "*-*" if chance.random() < 0.3 else chance.choice(_LINKS)


def _groups(chance: random.Random, names: list[str]) -> str:
    """The target of a partition. In half of the cases it parts the leader from all others, in a tenth each node from
    each other. In the rest it parts a drawn group, half of the nodes or fewer, from the others."""
    drawn = chance.random()
    if drawn < 0.5:
        return "leader|*"
    names = chance.sample(names, len(names))
    if drawn < 0.6:
        return "|".join(sorted(names))
    cut = chance.randint(1, len(names) // 2)
    return "|".join(",".join(sorted(group)) for group in (names[:cut], names[cut:]))
