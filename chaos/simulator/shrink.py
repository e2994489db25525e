"""Delta debugging over the lines of a plan: finds few faults with which the run still goes wrong in the same way.

Each line has its own end, so any part of a plan is a plan. The run's other draws (load, delays) follow from the seed
and from names, not from the faults. Still, fewer faults make another run, and it may break other promises too. It
counts as going wrong in the same way if any promise that the first run broke is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from chaos.plan.fault_plan import FaultPlan

T = TypeVar("T")


def shrink_plan(plan: FaultPlan, fails: Callable[[FaultPlan], bool], tries: int = 60) -> FaultPlan:
    """The smallest plan found with at most `tries` runs. `fails(plan)` runs a plan, and is True if it goes wrong in the
    same way. The given plan is known to fail."""
    left = tries

    def still(faults: Sequence[object]) -> bool:
        nonlocal left
        if not left:
            return False
        left -= 1
        return fails(replace(plan, faults=tuple(faults)))  # type: ignore[arg-type]

    return replace(plan, faults=tuple(fewest(plan.faults, still)))


def fewest(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Part of the items for which `fails` is still True, by ddmin (Zeller and Hildebrandt). No single item of the
    result can be left out, if `fails` gives the same answer each time. `fails` is taken to be True for all items
    together."""
    left = list(items)
    if left and fails([]):
        return []
    parts = 2
    while len(left) >= 2:
        size = -(-len(left) // parts)
        pieces = [left[start : start + size] for start in range(0, len(left), size)]
        for place, _ in enumerate(pieces):
            rest = [item for other, piece in enumerate(pieces) if other != place for item in piece]
            if fails(rest):
                left, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                return left
            parts = min(parts * 2, len(left))
    return left
