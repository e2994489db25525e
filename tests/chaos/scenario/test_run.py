"""The scenarios: their names, their plans, and what is said of a run that did not show what it says it shows."""

import pytest

from chaos.history.history import History
from chaos.history.verdict import Verdict
from chaos.live.result import Result, otherwise
from chaos.plan.fault_plan import FaultPlan
from chaos.scenario.plans import kills, plan
from chaos.scenario.run import main, scenarios

NAMES = [
    *("kill-leader", "kill-follower", "kill-all", "kill-leader-strict", "kill-leader-slow", "pause-leader", "transfer"),
    *("transfer-busy", "stop-leader", "stop-all", "rolling-restart", "replace", "race", "race-strict", "clock"),
]


def test_every_scenario_is_a_plan_with_as_many_faults() -> None:
    """Its text is read as the same plan; a rolling restart stops each of three nodes."""
    known = scenarios(6)
    assert list(known) == NAMES
    for name, scenario in known.items():
        assert FaultPlan.parse(scenario.plan.render(), "live") == scenario.plan
        assert scenario.times == (18 if name == "rolling-restart" else 6), name


def test_what_a_scenario_is_chosen_for() -> None:
    """The slow followers of one, the pauses that another bounds, and the new nodes of a third."""
    known = scenarios(4)
    assert [fault.target for fault in known["kill-leader-slow"].plan.faults if fault.kind == "slow"] == ["followers"]
    assert known["transfer-busy"].bounds.gap_p99_ms == 100
    assert known["clock"].bounds.skew_ms == 510
    assert known["kill-all"].settings == {"storage": {"checkpoint_s": 1}}
    assert [fault.target for fault in known["replace"].plan.faults] == ["n1", "n2", "n3", "n4"]


def test_a_fault_that_did_not_come_is_said() -> None:
    """Not reached, passed over, not run, not judged, or otherwise than the plan says."""
    faults = plan(kills(2, "leader"))
    whole = Result(History(), [], {"kill": 2}, {}, {}, {})
    assert otherwise(faults, whole) == []
    judged = [Verdict("R", {"faults": 2, "judged": 1}, [])]
    reasons = {"kill: n1 does not run": 1}
    short = Result(History(), judged, {"kill": 1}, {"kill": 1}, reasons, {}, ["transfer: no answer"])
    assert otherwise(faults, short) == [
        "1 of 2 faults came",
        "passed over: kill: n1 does not run",
        "R judged 1 of 2 faults: the others had no time to be over",
        "transfer: no answer",
    ]


@pytest.mark.parametrize("times", ["0", "-1"])
def test_a_scenario_has_faults(times: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One without any waited for an hour."""
    monkeypatch.setattr("sys.argv", ["chaos.scenario", "race", "--times", times])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert f"--times is 1 or more, found {times}" in capsys.readouterr().err
