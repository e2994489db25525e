"""Leadership moved on purpose under load, on real processes; 20 times in `make chaos-scenarios`."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from chaos.history.bounds import Bounds
from chaos.history.event import Event, Fault, Led, Nacked, Transferred
from chaos.history.history import History
from chaos.history.verdict import Verdict
from chaos.live.verdicts import ONE_BY_ONE, judge
from chaos.plan.load_plan import Plan
from chaos.scenario.plans import plan, rolling_restarts, transfers
from tests.chaos.history.planted import DUPLICATES, EPOCH_MS, at, good, repeats
from tests.chaos.scenario.carried_out import carried_out


def test_a_transfer_that_repeats_pauses_or_goes_astray_is_red() -> None:
    """T: the good history with a transfer in place of its kill is judged by it: three repeats, and the pause."""
    moved = {"source": "n1", "target": "n2", "asked": "n2", "term_before": 1, "term_after": 2, "took_ms": 30}
    transfer = msgspec.convert(moved | at(1_500) | {"type": "Transferred"}, Transferred)

    def verdict(event: Event, repeated: bool, gap_ms: int = 600) -> list[str]:
        events = [each for each in good() if repeated or each not in repeats()]
        return next(
            each.faults for each in judge(History([*events, event]), Bounds(gap_ms=gap_ms)) if each.promise == "T"
        )

    assert not verdict(transfer, repeated=False)
    assert len(verdict(transfer, repeated=True)) == 3
    assert "no hand-over for 510 ms" in verdict(transfer, repeated=False, gap_ms=100)[0]
    assert "n3 leads" in verdict(msgspec.structs.replace(transfer, target="n3"), repeated=False)[0]
    assert "term 1 afterwards" in verdict(msgspec.structs.replace(transfer, term_after=1), repeated=False)[0]


def test_what_was_given_back_may_come_again() -> None:
    """T: a message that its consumer gave back before the transfer is handed over again, and nothing is wrong."""
    moved = {"source": "n1", "target": "n2", "asked": "n2", "term_before": 1, "term_after": 2, "took_ms": 30}
    transfer = msgspec.convert(moved | at(1_500) | {"type": "Transferred"}, Transferred)
    nack = {"term": 1, "attempt": 1, "result": "nacked", "asked_wall_ms": EPOCH_MS + 1_100} | at(1_110)
    given_back = [
        msgspec.convert(nack | {"type": "Nacked", "number": number, "message_id": f"id{number}"}, Nacked)
        for number in DUPLICATES
    ]

    def faults(events: list[Nacked]) -> int:
        history = History([*good(), *events, transfer])
        return next(len(each.faults) for each in judge(history, Bounds()) if each.promise == "T")

    assert (faults(given_back), faults(given_back[1:]), faults([])) == (0, 1, 3)


def test_what_a_transfer_says_of_itself_is_judged_too() -> None:
    """T: an answer that counts a repeat is red, and so is a p99 of the gaps past its bound; one without an account is
    only reported."""
    moved = {"source": "n1", "target": "n2", "asked": "", "term_before": 1, "term_after": 2, "took_ms": 30}
    events = [each for each in good() if each not in repeats()]

    def verdict(bounds: Bounds, **account: int | None) -> Verdict:
        transfer = msgspec.convert(moved | account | at(1_500) | {"type": "Transferred"}, Transferred)
        return next(each for each in judge(History([*events, transfer]), bounds) if each.promise == "T")

    assert verdict(Bounds(), gap_ms=40, in_flight_carried=3, repeated=0).holds
    assert "counted 2 repeats" in verdict(Bounds(), gap_ms=40, in_flight_carried=3, repeated=2).faults[0]
    assert verdict(Bounds()).figure["unaccounted"] == 1
    assert "(p99 of 1), the bound is 100" in verdict(Bounds(gap_p99_ms=100)).faults[0]


def test_a_stop_that_repeats_is_red() -> None:
    """T: the kill of the good history as an order to stop: what was handed over again in the next term is named."""
    stop = {"node": "n1", "role": "leader", "kind": "stop", "phase": "begin"}
    led = msgspec.convert(at(1_000) | {"type": "Led", "term": 1, "leader": "n1"}, Led)
    fault = msgspec.convert(stop | at(1_400) | {"type": "Fault"}, Fault)
    kept = [each for each in good() if not isinstance(each, Fault | Led)]
    found = next(each for each in judge(History([*kept, led, fault]), Bounds()) if each.promise == "T")
    assert found.figure["stops"] == 1
    assert len(found.faults) == 3


@pytest.mark.timeout(120)
def test_a_rolling_restart_under_load(tmp_path: Path) -> None:
    """Every node once, a third of the load pushed with pushes on the wire: nothing lost, early, or in two terms."""
    load = Plan(rate=200, due_together_ms=50, lease_ms=20_000, push_share=0.35, push_answer_ms=150)
    result = carried_out(tmp_path, plan(rolling_restarts(1, 0.5)), load, replace(ONE_BY_ONE, on_time_ms=500))
    assert result.figure("T")["stops"] in (1, 2, 3)
    assert result.figure("D")["failover"] == 0


@pytest.mark.timeout(120)
def test_transfers_under_load(tmp_path: Path) -> None:
    """Six, asked of leader and followers, to a named node and to the best: nothing lost, early or twice, and of some
    5,000 messages all but one request's are acknowledged."""
    load = Plan(rate=1_000, due_together_ms=20, lease_ms=8_000)
    bounds = replace(ONE_BY_ONE, on_time_ms=500, acknowledged_share=0.998)
    result = carried_out(tmp_path, plan(transfers(6, 0.75)), load, bounds)
    assert result.figure("T")["transfers"] == 6
    assert result.figure("S")["terms"] == 7
