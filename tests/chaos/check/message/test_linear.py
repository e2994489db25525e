"""The checker of linearizability can fail: answers that no order explains turn `linear` red."""

import msgspec

from chaos.history.event import Answered, Cancelled, Event, Rescheduled
from chaos.history.history import History
from tests.chaos.check.test_inside_checker import broken
from tests.chaos.history.planted import EPOCH_MS, at
from tests.chaos.history.planted_inside import good_inside, with_more


def changed(kind: type[Event], number: int, asked_ms: int, ms: int, **fields: object) -> Event:
    """A cancel or reschedule of message `number`, asked and answered then."""
    asked = {"asked_wall_ms": EPOCH_MS + asked_ms, "number": number, "message_id": f"id{number}"}
    event: Event = msgspec.convert(asked | at(ms) | fields | {"type": kind.__name__}, kind)
    return event


def test_answers_that_no_order_explains() -> None:
    """A refusal before anything could have ended it, a move after the end, two ends, a lease before any hand-over,
    revisions that go back.
    """
    settled = {"outcome": "refused", "detail": "already-settled"}
    leased = {"outcome": "refused", "detail": "leased"}
    moved = {"outcome": "moved", "due_ms": EPOCH_MS + 3_000}
    cancelled = {"outcome": "cancelled", "prior": "known", "attempts_made": 1}
    assert broken(with_more(changed(Cancelled, 20, 220, 225, **settled))) == set()  # acked at 215
    assert broken(with_more(changed(Cancelled, 20, 150, 160, **settled))) == {"linear"}
    assert broken(with_more(changed(Cancelled, 20, 150, 160, **leased))) == {"linear"}
    assert broken(with_more(changed(Rescheduled, 20, 400, 405, **moved))) == {"linear"}
    assert broken(with_more(changed(Cancelled, 20, 400, 405, **cancelled))) == {"linear"}
    rows = [(100, 105, 3), (110, 115, 2)]
    back = [changed(Rescheduled, 350, asked, ms, revision=revision, **moved) for asked, ms, revision in rows]
    assert broken(with_more(*back)) == {"linear"}
    assert broken(with_more(*back[:1])) == set()


def test_unknown_outcomes_bind_nothing() -> None:
    """A cancel whose answer was lost may have worked or not: a hand-over after it, and a refusal by it, are honest."""
    lost = changed(Cancelled, 20, 100, 105, outcome="unknown")
    assert broken(with_more(lost)) == set()
    refused = changed(Rescheduled, 350, 200, 205, outcome="refused", detail="already-settled")
    assert broken(with_more(refused)) == {"linear"}


def test_a_cancel_that_is_asked_again_may_have_worked_the_first_time() -> None:
    """Seed 30135: its first answer was lost, and a reschedule found it settled before it was asked again."""
    lost = changed(Cancelled, 350, 100, 105, outcome="unknown")
    refused = changed(Rescheduled, 350, 200, 205, outcome="refused", detail="already-settled")
    again = changed(Cancelled, 350, 300, 305, outcome="cancelled", prior="none")
    without = [
        event for event in good_inside() if getattr(event, "message_id", "") != "id350" or isinstance(event, Answered)
    ]
    assert "linear" not in broken(History([*without, lost, refused, again]))
    assert "linear" in broken(History([*without, refused, again]))
