"""Untrue counts, sums and acks turn `answers` red; the true ones beside them do not."""

from typing import Any

import pytest

from chaos.check.message.answers import check_answers
from chaos.history.bounds import Bounds
from chaos.history.event import Acked, Answered, Counted, Event, HandedOver, Offered, Settled, Summed
from chaos.history.history import History
from storage.format.states import DELIVERED
from tests.chaos.history.planted import EPOCH_MS, at
from tests.chaos.history.planted_inside import good_inside, with_more

TOPIC = "counted"


def wrong(history: History) -> list[str]:
    """What is untrue."""
    return check_answers(history, Bounds()).faults


def scheduled(number: int, ms: int, outcome: Any = "acknowledged") -> list[Event]:
    """A message of a topic that is counted, due far ahead."""
    due_ms = EPOCH_MS + 500_000
    offered = Offered(**at(ms), number=number, keyed=False, asked_due_ms=due_ms, topic=TOPIC)
    told = {"number": number, "node": "n1", "sent_mono_ms": float(ms), "message_id": f"id{number}", "due_ms": due_ms}
    return [offered, Answered(**at(ms + 5), outcome=outcome, **told)]  # type: ignore[arg-type]


def ended(number: int, ms: int) -> list[Event]:
    """It was handed over, and acked 10 ms later."""
    name = {"number": number, "message_id": f"id{number}", "term": 2, "attempt": 1}
    due = {"due_ms": EPOCH_MS, "asked_due_ms": EPOCH_MS, "handed_over_ms": EPOCH_MS + ms, "leased_until_ms": EPOCH_MS}
    of = {"node": "n2", "connection": "c", "response": 1}
    received = HandedOver(**at(ms), **name, **due, **of)  # type: ignore[arg-type]
    return [received, Acked(**at(ms + 15), **name, result="acked", asked_wall_ms=EPOCH_MS + ms + 10)]  # type: ignore[arg-type]


@pytest.mark.parametrize(("count", "true"), [(1, False), (2, True), (3, True), (4, False)])
def test_a_count_is_of_what_was_open(count: int, true: bool) -> None:
    """Two open for sure, one perhaps, one refused, one that has ended, one that came later."""
    events = [*scheduled(900, 5_000), *scheduled(901, 5_000), *scheduled(902, 5_000, "unknown")]
    events += [*scheduled(903, 5_000, "refused"), *scheduled(904, 5_000), *ended(904, 5_100), *scheduled(905, 9_500)]
    counted = Counted(**at(9_010), topic=TOPIC, asked_mono_ms=9_000.0, count=count)
    faults = [fault for fault in check_answers(with_more(*events, counted), Bounds()).faults if "count" in fault]
    assert bool(faults) is not true


@pytest.mark.parametrize(("count", "true"), [(0, True), (1, True), (2, True), (3, False)])
def test_what_moves_or_ends_meanwhile_is_counted_or_not(count: int, true: bool) -> None:
    """Handed over while it was counted: it may stand in two hours, or in none."""
    counted = Counted(**at(5_110), topic=TOPIC, asked_mono_ms=5_090.0, count=count)
    faults = [
        fault
        for fault in wrong(with_more(*scheduled(900, 5_000), *ended(900, 5_100), counted))
        if fault.startswith("count")
    ]
    assert bool(faults) is not true


@pytest.mark.parametrize(
    ("said", "true"),
    [
        ({}, True),
        ({"lost": 1}, False),
        ({"strict_failover": 1}, False),
        ({"hand_overs": 0}, True),
        ({"hand_overs": 0, "complete": True}, False),
        ({"hand_overs": 1_000, "complete": True}, True),
    ],
)
def test_sums_of_the_ledger(said: dict[str, Any], true: bool) -> None:
    """Nothing is lost; a ledger that lacks nothing has all that was received by then. What came behind it counted, in
    `test_cancels_and_reschedules_race_the_due_time_while_leaders_die` on a busy machine."""
    honest = {"lost": 0, "strict_failover": 0, "hand_overs": 400, "complete": False}
    assert bool(wrong(with_more(Summed(**at(9_900), asked_mono_ms=9_900.0, **(honest | said))))) is not true
    early = Summed(**at(9_900), asked_mono_ms=0.0, lost=0, strict_failover=0, hand_overs=0, complete=True)
    assert not wrong(with_more(early))


@pytest.mark.parametrize(
    ("results", "delivered", "true"),
    [
        (["acked"], True, True),
        (["acked"], False, False),
        (["stale"], False, True),
        (["stale"], True, False),
        (["refused", "acked"], True, True),
        (["unknown", "stale"], True, True),
    ],
)
def test_an_ack_is_on_record_exactly_if_it_was_carried_out(results: list[str], delivered: bool, true: bool) -> None:
    """Whatever is said of one that was sent before."""
    name: dict[str, Any] = {"message_id": "id20", "term": 1, "attempt": 1}
    of = "id20" if delivered else "id21"
    acks = [
        Acked(**at(230 + place), **name, number=20, result=result, asked_wall_ms=EPOCH_MS + 229)
        for place, result in enumerate(results)
    ]
    settled = Settled(**at(228), **(name | {"message_id": of}), index=40, what=DELIVERED, code=0)
    others = [event for event in good_inside() if not isinstance(event, Acked) and getattr(event, "number", 20) == 20]
    faults = [fault for fault in wrong(History([*others, settled, *acks])) if "acks of" in fault]
    assert bool(faults) is not true
