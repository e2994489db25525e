"""A node is replaced under load, on real processes; `python -m chaos.scenario replace` does it to each in turn."""

from dataclasses import replace
from pathlib import Path

import pytest

from chaos.history.event import Digest
from chaos.live.verdicts import ONE_BY_ONE
from chaos.plan.load_plan import Plan
from chaos.scenario.plans import plan, replacements
from tests.chaos.scenario.carried_out import carried_out


@pytest.mark.timeout(120)
def test_a_founder_gives_way_to_a_new_node(tmp_path: Path) -> None:
    """The new one gets its vote, the old one ends with the exit code of a removed node; nothing acknowledged is lost,
    nothing comes twice, and the files of those that are members now are equal."""

    bounds = replace(ONE_BY_ONE, recovery_ms=4_000, on_time_ms=2_000)
    result = carried_out(tmp_path, plan(replacements(1)), Plan(rate=200, due_together_ms=50), bounds)
    assert {event.node for event in result.history.of(Digest)} == {"n2", "n3", "n4"}
