"""Mistakes planted in the code: each is found by a plan that is known to find it, and not without the mistake.

The plans are short: what a drawn seed needs for it and no more. How many drawn seeds each takes, from seed 1 on,
`make soak-mutants` shows.
"""

from pathlib import Path

import pytest

from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.build.mutant import MUTANTS, patched, planted
from chaos.simulator.run import run_plan
from tests.chaos.simulator.load.test_crowd import AT_ONCE, SCENES

PLANS = Path(__file__).parent / "mutants"

#: Mutant -> promises that it breaks at the least.
BROKEN = {
    "acknowledge-before-sync": {"L", "committed"},
    "trust-from-receipt": {"trust"},
    "trust-by-own-times": {"trust"},
    "dispatch-state-off-by-one": {"state"},
    "late-merge": {"state"},
    "catalog-ahead-of-checkpoint": {"alive"},
    "lease-of-an-old-term": {"promotion"},
    "id-again-after-unlinking": {"ids"},
    "guest-is-heard": {"door"},
    "place-is-taken": {"door"},
    "level-raised-early": {"levels"},
    "level-raised-past-who-is-away": {"levels"},
    "restore-is-forgotten": {"restored"},
    "one-of-a-chunk-is-left-out": {"operations"},
    "moved-too-far": {"many_moves"},
    "created-beside-the-holder": {"keys"},
    "replaced-and-left": {"U"},
    "batch-in-two-entries": {"U", "whole_batches"},
    "answer-one-entry-late": {"U", "ids"},
}


def plan_of(name: str) -> FaultPlan:
    """The plan that is known to find a mutant."""
    return FaultPlan.parse((PLANS / f"{name}.plan").read_text())


@pytest.mark.parametrize("name", list(BROKEN))
def test_planted_mistake_is_found(name: str) -> None:
    """The promises that the mistake breaks are red."""
    with planted(name):
        run = run_plan(plan_of(name))
    assert run.promises >= BROKEN[name], "\n".join(run.broken)


@pytest.mark.parametrize("name", list(BROKEN))
def test_without_the_mistake_the_plan_breaks_nothing(name: str) -> None:
    """The same plan is harmless to the code as it is: what is red above is the mistake's doing."""
    run = run_plan(plan_of(name))
    assert not run.broken, "\n".join(run.broken)


def test_every_mistake_has_its_test() -> None:
    """Here, or beside a crowd, which its own file has."""
    assert {*BROKEN, *SCENES, AT_ONCE} == {*MUTANTS}


class Owner:
    """Something with a name to patch."""

    value = 1


def fail() -> None:
    """With the patch in place."""
    with patched([(Owner, "value", 2)]):
        raise RuntimeError(Owner.value)


def test_patches_are_taken_back() -> None:
    """Also when what runs under them fails."""
    with pytest.raises(RuntimeError, match="2"):
        fail()
    assert Owner.value == 1
