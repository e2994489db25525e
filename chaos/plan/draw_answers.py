"""Additions to plans that test answers: clocks that differ from the start, backups, and storms after which answers were
untrue in earlier builds.

These are added to a plan that a seed draws without them. So a seed that is known for a fault keeps its plan.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from chaos.plan.draw import FIRST_S, LAST_S
from chaos.plan.fault_plan import Fault, FaultPlan

#: The most that a clock without a fault is off, in ms. Right clocks are within 500 ms of the median.
SKEW_MS: Final = 450
#: The same where a fault puts one clock wrong: then any other clock may be the median.
SKEW_BESIDE_WRONG_MS: Final = 200
STORMS_MIN, STORMS_MAX = 1, 3
#: The share of seeds that restore a cluster from a backup. Never where all clocks are ahead for a while: the backup
#: would be of a time to come.
BACKUP_SHARE: Final = 0.25
#: The moment of the backup: between these shares of the load's length.
BACKUP_AT: Final = (0.2, 0.9)
#: So many kills of the leader that has just proposed a request, from a random number of its own for each seed.
REQUEST_KILLS: Final = (2, 5)
#: Storms as lines of a plan, their moments counted from the storm's begin. A, B and C are three drawn nodes.
STORMS: Final = (
    ("0 transfer A for=0.1", "1.5 jump B for=9 by=-4", "2 drain C for=8", "3.5 catch A for=5 how=kill what=any"),
    (
        "0 catch leader for=0.5 how=kill what=new",
        "4 catch leader for=0.5 how=kill what=any",
        "8 catch leader for=0.5 how=kill what=new",
    ),
    ("0 transfer A for=0.1", "2 catch A for=0.5 how=kill what=new"),
    ("0 transfer n1 for=0.1", "1.5 drain n3 for=6", "3 catch n1 for=0.5 how=kill what=new"),
    ("0 transfer A for=0.1", "2 transfer B for=0.1", "4 transfer C for=0.1"),
    ("0 transfer A for=0.1", "3 transfer B for=0.1", "3.1 kill B for=2", "3.1 kill C for=2"),
    ("0 pause leader for=1", "0.3 kill follower for=0.5"),
    ("0 slow leader for=1 by=1.5", "0.3 power leader for=1.5 unsynced=lost"),
    ("0 catch leader for=1 how=power what=any", "4 catch leader for=1 how=power what=new"),
    ("0 power leader for=1 unsynced=lost", "0.1 cut leader-follower for=1"),
)


def with_asks(plan: FaultPlan) -> FaultPlan:
    """This plan with clocks that differ (`skew`), some of STORMS and kills in the middle of requests. Perhaps it has a
    backup. A plan with older builds is returned unchanged, because these builds still give the untrue answers. So is a
    plan with a crowd, because a crowd alone makes a run slow."""
    if plan.older or plan.crowd:
        return plan
    chance = random.Random(f"asks {plan.seed}")
    drawn = [_storm(chance, plan) for _ in range(chance.randint(STORMS_MIN, STORMS_MAX))]
    more = [*(fault for storm in drawn for fault in storm), *_request_kills(plan)]
    faults = sorted((*plan.faults, *more), key=lambda fault: fault.at_s)
    wrong = any(fault.kind in ("jump", "drift") for fault in faults)
    skew = SKEW_BESIDE_WRONG_MS if wrong else SKEW_MS
    return replace(plan, faults=tuple(faults), skew=skew, backup=_backup(plan))


def _request_kills(plan: FaultPlan) -> list[Fault]:
    chance = random.Random(f"requests {plan.seed}")
    moments = [
        chance.uniform(FIRST_S, max(FIRST_S, plan.seconds - LAST_S)) for _ in range(chance.randint(*REQUEST_KILLS))
    ]
    lines = "\n".join(f"{at_s:.3f} catch leader for=0.5 how=kill what=request" for at_s in moments)
    return list(FaultPlan.parse(f"plan seed=0 nodes=3 seconds={plan.seconds}\n{lines}").faults)


def _backup(plan: FaultPlan) -> float:
    """The moment of the backup, in seconds after the load's begin. 0: there is none."""
    chance = random.Random(f"backup {plan.seed}")
    ahead = any((fault.kind, fault.target) == ("jump", "*") for fault in plan.faults)
    drawn = chance.random() < BACKUP_SHARE and not ahead
    return round(chance.uniform(*BACKUP_AT) * plan.seconds, 3) if drawn else 0.0


def _storm(chance: random.Random, plan: FaultPlan) -> list[Fault]:
    names = [f"n{number}" for number in range(1, plan.nodes + 1)]
    chance.shuffle(names)
    lines = "\n".join(chance.choice(STORMS))
    for letter, name in zip("ABC", names, strict=False):
        lines = lines.replace(f" {letter} ", f" {name} ")
    faults = FaultPlan.parse(f"plan seed=0 nodes=3 seconds={plan.seconds}\n{lines}").faults
    begin_s = chance.uniform(FIRST_S, max(FIRST_S, plan.seconds - LAST_S - faults[-1].at_s))
    stretch = chance.uniform(0.5, 1.5)
    return [replace(fault, at_s=round(begin_s + stretch * fault.at_s, 3)) for fault in faults]
