"""Beside a crowd: work by the size of an hour, or by the number of hours, is found, and today's code has none."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from chaos.history.bounds import Bounds
from chaos.plan.draw import CROWD_WEIGHT, draw_plan
from chaos.plan.fault_plan import FaultPlan
from chaos.simulator.build.mutant import planted
from chaos.simulator.judge import ANY_TIME
from chaos.simulator.load.crowd import CrowdShape, crowd_of
from chaos.simulator.result import Run
from chaos.simulator.run import run_plan
from storage.tables.key import Keys


class Scene(NamedTuple):
    """A plan, what the crowd is in it, and what the longest step is charged for where the mistake is planted. Fewer
    hours than a drawn crowd has cost less: `held_ms` is the bound to their scale."""

    plan: str
    shape: CrowdShape
    charged: str
    held_ms: int = Bounds().held_ms


SCENES: Final = {
    "look-at-all-hours": Scene(
        "plan seed=2 nodes=3 seconds=14\n5 jump * for=9 by=4900000\n",
        CrowdShape(hours=1_300, keyed=5),
        "files opened",
        held_ms=20,
    ),
    "states-of-the-whole-hour": Scene(
        "plan seed=2 nodes=3 seconds=11\n7 jump * for=4 by=400000\n",
        CrowdShape(hours=5, keyed=800),
        "bytes of settle",
    ),
}


def held(run: Run) -> str:
    """What broke the bound of a step, by the verdict."""
    return next(verdict.describe() for verdict in run.verdicts if verdict.promise == "held")


def run_scene(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Run:
    """As it is judged with its bound."""
    monkeypatch.setattr("chaos.simulator.run.ANY_TIME", replace(ANY_TIME, held_ms=scene.held_ms))
    return run_plan(FaultPlan.parse(scene.plan), crowd=scene.shape)


@pytest.mark.parametrize("name", list(SCENES))
def test_work_by_the_size_of_what_is_kept_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only by the step that it holds: nothing else is broken by it."""
    with planted(name):
        run = run_scene(SCENES[name], monkeypatch)
    assert run.promises == {"held"}, "\n".join(run.broken)
    assert SCENES[name].charged in held(run)


@pytest.mark.parametrize("name", list(SCENES))
def test_without_the_mistake_no_step_is_long(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same scenes hold nobody."""
    run = run_scene(SCENES[name], monkeypatch)
    assert not run.broken, "\n".join(run.broken)


def test_some_seeds_have_a_crowd_whose_hours_pass() -> None:
    """A few in a hundred, for each costs as much as several others."""
    plans = [plan for seed in range(400) if (plan := draw_plan(seed, 60)).crowd]
    assert 4 <= len(plans) <= 24
    for plan in plans:
        assert plan.crowd == CROWD_WEIGHT
        (jump,) = [fault for fault in plan.faults if (fault.kind, fault.target) == ("jump", "*")]
        assert jump.at_s + jump.for_s == pytest.approx(plan.seconds)
    assert not any(draw_plan(seed, 20).crowd for seed in range(100))


def test_a_crowd_beside_older_builds_has_no_keys() -> None:
    """Seed 5478: at level 1 an entry drops all keys of an hour at once, since the first builds do. That is what level 2
    mended, and nothing that this build could do otherwise at level 1."""
    plan = draw_plan(5478, 60)
    assert plan.older
    assert crowd_of(plan) == CrowdShape(keyed=0)
    assert crowd_of(replace(plan, older=0)) == CrowdShape(keyed=800)


AT_ONCE: Final = "keys-dropped-at-once"
# The keyed hour is over when the clocks pass it, and unlinked 20 s after its last ack.
OLDER: Final = "plan seed=2 nodes=3 seconds=46 older=3\n12 jump * for=34 by=400000\n"
UPGRADED: Final = OLDER + "".join(f"{4 + 2 * number} version n{number} for=0.3 to=newer\n" for number in (1, 2, 3))
KEYED: Final = CrowdShape(hours=5, keyed=300)


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many keys went at once, and how many a few with each entry."""
    seen: Counter[str] = Counter()
    at_once, few = Keys.drop_hour, Keys.drop_dead

    def drop_hour(self: Keys, hour: int) -> int:
        count = at_once(self, hour)
        seen["at once"] += count
        return count

    def drop_dead(self: Keys) -> int:
        count = few(self)
        seen["a few"] += count
        return count

    monkeypatch.setattr(Keys, "drop_hour", drop_hour)
    monkeypatch.setattr(Keys, "drop_dead", drop_dead)
    return seen


def test_at_level_1_the_keys_of_an_hour_hold_a_node_and_nobody_is_to_blame(dropped: Counter[str]) -> None:
    """Seeds 8238, 8360: the load's own keys, 180 in an hour, are enough. The rolling hash of the entry that unlinks the
    hour has each row that goes, so no build of that level can spread them."""
    run = run_plan(FaultPlan.parse(OLDER), crowd=KEYED)
    assert not run.broken, "\n".join(run.broken)
    assert dropped["at once"] >= 3 * 300
    assert not dropped["a few"]
    figure: dict[str, Any] = next(dict(verdict.figure) for verdict in run.verdicts if verdict.promise == "held")
    assert figure["longest_ms"] > Bounds().held_ms


@pytest.mark.parametrize("mistake", [True, False])
def test_after_an_upgrade_who_drops_them_at_once_is_found(mistake: bool, dropped: Counter[str]) -> None:
    """Founded by older builds, and at level 2 when the hour goes."""
    with planted(AT_ONCE) if mistake else nullcontext():
        run = run_plan(FaultPlan.parse(UPGRADED), crowd=KEYED)
    assert run.promises == ({"held"} if mistake else set()), "\n".join(run.broken)
    assert ("keys dropped" in held(run)) is mistake
    assert dropped["a few"]
    assert not dropped["at once"]


def test_what_a_step_may_take() -> None:
    """Far below the 250 ms after which trust ends, and below what each mistake above costs."""
    assert Bounds().held_ms == 50
