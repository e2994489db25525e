"""What clients saw goes to the reconciliation as files; its ledger is held against the checkers repeat by repeat."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.history.bounds import Bounds
from chaos.history.event import Event, HandedOver
from chaos.history.history import History
from chaos.report.evidence import agreement, write_evidence
from tests.chaos.history.planted import COUNT, DUPLICATES, RELEASED, good


def rows() -> list[dict[str, Any]]:
    """The duplicates of the good history as a ledger has them."""
    found = [row(number, "failover") for number in DUPLICATES]
    return [*found, row(RELEASED, "lease_ended")]


def row(number: int, cause: str, before_attempt: int = 1) -> dict[str, Any]:
    """Message `number` handed over again in term 2, after one in term 1."""
    named = {"id": f"id{number}", "term": 2, "attempt": 2, "before_term": 1}
    return named | {"before_attempt": before_attempt, "cause": cause}


def test_ledger_of_the_same_run_agrees() -> None:
    """Each repeat is the same duplicate in both, and the counts are equal."""
    found = agreement(History(good()), Bounds(), rows())
    assert found.differences == []
    assert found.ledger == found.checkers == {"failover": 3, "lease_ended": 1}
    assert found.unseen == found.unheard == {}


@pytest.mark.parametrize(
    ("ledger", "said"),
    [
        (rows()[1:], "failover by the checkers, no duplicate by the ledger"),
        ([*rows(), row(10, "failover")], None),
        ([*rows()[:3], row(RELEASED, "failover")], "after_lease by the checkers, failover by the ledger"),
        ([row(DUPLICATES[0], "unexplained"), *rows()[1:]], "failover by the checkers, unexplained by the ledger"),
        ([*rows(), rows()[0]], "1 duplicates are in the ledger twice"),
    ],
)
def test_difference_is_found(ledger: list[dict[str, Any]], said: str | None) -> None:
    """A duplicate that one of them does not know, or for another cause; one that clients never saw is none."""
    found = agreement(History(good()), Bounds(), ledger)
    if said is None:
        assert found.differences == []
        assert found.unseen == {"failover": 1}
    else:
        assert len(found.differences) == 1
        assert said in found.differences[0]


def test_repeat_after_a_refusal_that_nobody_heard_is_no_difference() -> None:
    """A webhook answered 500 to a leader that was dead by then: a retry to its receiver, a failover by the records."""

    def refused(event: Event) -> Event:
        mine = isinstance(event, HandedOver) and event.number == DUPLICATES[0] and event.term == 1
        return msgspec.structs.replace(event, status=500) if mine else event

    found = agreement(History(map(refused, good())), Bounds(), rows())
    assert found.differences == []
    assert (found.ledger["failover"], found.unheard, found.checkers["failover"]) == (3, {"failover": 1}, 2)


def test_push_that_timed_out_unheard_is_no_difference() -> None:
    """Strict leases count from the planned moment: one may end while the observer, who counts from the start, thinks
    that it runs. Then the checker goes by the attempt's time, which was over; the records know no outcome."""

    def pushed(event: Event) -> Event:
        if not isinstance(event, HandedOver) or event.number != RELEASED:
            return event
        over_ms = event.handed_over_ms + 2_000
        leased_ms = event.leased_until_ms + 9
        return msgspec.structs.replace(event, status=200, gives_up_ms=over_ms, leased_until_ms=leased_ms)

    history = History(map(pushed, good()))
    found = agreement(history, Bounds(), [*rows()[:3], row(RELEASED, "unknown_outcome")])
    assert found.differences == []
    assert found.unheard == {"unknown_outcome": 1}
    wrong = agreement(history, Bounds(), [*rows()[:3], row(RELEASED, "failover")])
    assert len(wrong.differences) == 1


def test_twins_are_two_messages() -> None:
    """Scheduled twice is of two messages; the checkers know one offer by one number and have nothing to say."""
    twin = row(20, "scheduled_twice")
    assert agreement(History(good()), Bounds(), [*rows(), twin]).differences == []


def test_files_say_what_clients_saw(tmp_path: Path) -> None:
    """One line an acknowledged id, one a hand-over received, with what names it."""
    history = History(good())
    found = write_evidence(history, tmp_path)
    acknowledged = [json.loads(line) for line in found.acknowledged.read_text(encoding="utf-8").splitlines()]
    receipts = [json.loads(line) for line in found.receipts.read_text(encoding="utf-8").splitlines()]
    assert {line["id"] for line in acknowledged} == {f"id{number}" for number in range(COUNT)}
    assert len(receipts) == len(history.of(HandedOver))
    assert {(line["id"], line["term"], line["attempt"]) for line in receipts} >= {("id95", 1, 1), ("id95", 2, 2)}
    assert {line["status"] for line in receipts} == {200}
