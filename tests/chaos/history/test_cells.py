"""The counts of cells and races, from planted events. Each race occurs in the planted history once."""

from typing import Any

from chaos.history.cells import RACES, cells, races
from chaos.history.event import (
    MANY,
    Acked,
    Answered,
    BatchAnswered,
    Cancelled,
    DeadLettered,
    Event,
    Gone,
    ManyMoved,
    Nacked,
    Offered,
    Promoted,
    RequestAnswered,
    Rescheduled,
    Wished,
)
from chaos.history.history import History
from chaos.history.totals import Totals, totals_of
from tests.chaos.history.planted import EPOCH_MS, at, hand_over

WINDOW = range(EPOCH_MS, EPOCH_MS + 10_000)


def message(number: int, ms: int, *, outcome: str = "acknowledged", detail: str = "", **offered: Any) -> list[Event]:
    """A message that was offered at `ms` and answered 5 ms later."""
    told = {"number": number, "node": "n1", "outcome": outcome, "sent_mono_ms": float(ms), "detail": detail}
    more: dict[str, Any] = {"keyed": False, "topic": "t"} | offered
    return [
        Offered(**at(ms), number=number, asked_due_ms=EPOCH_MS + 5_000, **more),
        Answered(**at(ms + 5), **told, message_id=f"id{number}", due_ms=EPOCH_MS + 5_000),  # type: ignore[arg-type]
    ]


def about(number: int, ms: int) -> dict[str, Any]:
    """The fields of an event about one message."""
    return at(ms) | {"number": number, "message_id": f"id{number}"}


def asked(number: int, ms: int) -> dict[str, Any]:
    """The same of a request that was sent a moment before."""
    return about(number, ms) | {"asked_wall_ms": EPOCH_MS + ms - 1}


def fence(number: int, ms: int) -> dict[str, Any]:
    """The same of a hand-over."""
    return about(number, ms) | {"term": 1, "attempt": 1}


def wished(number: int, from_ms: int, to_ms: int, outcome: str, message_id: str) -> Wished:
    """The answer to a wish for one key."""
    fields: dict[str, Any] = {"outcome": outcome, "message_id": message_id, "previous": ""}
    return Wished(**at(to_ms), number=number, name="t k", extends=False, asked_mono_ms=from_ms, **fields)


def history(*events: Event) -> History:
    """These events in the order of time."""
    return History(sorted(events, key=lambda event: event.mono_ms))


def test_each_kind_is_counted_by_what_it_met() -> None:
    """A message counts once for each event, and for each of its kinds."""
    found = cells(
        history(
            *message(1, 0),
            *message(2, 10, keyed=True),
            *message(3, 10, keyed=True),
            *message(4, 20, once=True, strict=True),
            *message(5, 30),
            *message(6, 40),
            BatchAnswered(**at(36), numbers=(5,), outcome="acknowledged", replayed=(False,)),
            wished(6, 40, 46, "replaced", "id6"),
            wished(7, 47, 49, "extended", "id6"),
            hand_over(1, 100, 1, 2),
            hand_over(1, 110, 1, 3),
            Cancelled(**asked(2, 100), outcome="cancelled"),
            Rescheduled(**asked(3, 100), outcome="moved"),
            Rescheduled(**asked(5, 100), outcome="moved", detail=MANY),
            DeadLettered(**about(5, 130), letter_id="x", reason="r"),
            Promoted(**at(150), node="n2", term=2, open_ids=(), given=False),
            Promoted(**at(160), node="n2", term=3, open_ids=(), given=True),
            Acked(**fence(4, 200), result="acked"),
            Gone(**asked(6, 200), attempts_made=0, sure=True),
        )
    )
    assert found == {
        ("plain", "retry"): 1,
        ("key", "cancel"): 1,
        ("batch", "cancel"): 1,
        ("key", "reschedule"): 1,
        ("batch", "reschedule"): 1,
        ("atomic", "operation"): 1,
        ("atomic", "dead letter"): 1,
        ("once", "strict failover"): 1,
        ("once", "transfer"): 1,
        ("replaced", "operation"): 1,
        ("replaced", "failover"): 1,
        ("replaced", "transfer"): 1,
        ("extended", "operation"): 1,
        ("extended", "failover"): 1,
        ("extended", "transfer"): 1,
    }


def planted() -> History:
    """A history in which each race occurs once."""
    name = f"release {WINDOW.start} {WINDOW.stop}"
    moved: dict[str, Any] = {"topic": "t", "from_ms": WINDOW.start, "to_ms": WINDOW.stop, "kind": "release"}
    moved |= {"asked_wall_ms": EPOCH_MS + 100}
    return history(
        *(each for number in range(1, 5) for each in message(number, number)),
        RequestAnswered(**at(110), kind="operation", name=name, asked_mono_ms=100),
        RequestAnswered(**at(900), kind="running", name=name, asked_mono_ms=110),
        ManyMoved(**at(901), **moved, outcome="begun", operation="op-1", changed=3, leased=1),
        ManyMoved(**at(300), **moved, outcome="refused", detail="in-progress"),
        Promoted(**at(500), node="n2", term=2, open_ids=(), given=False),
        Cancelled(**asked(1, 600), outcome="cancelled"),
        Cancelled(**asked(2, 1_000), outcome="cancelled"),  # the set has ended
        Rescheduled(**asked(3, 600), outcome="refused", detail="in-progress"),
        Acked(**fence(3, 610), result="acked"),
        Nacked(**asked(4, 620), term=1, attempt=1, result="nacked"),
        Gone(**asked(4, 930), attempts_made=1, sure=True),
        Acked(**fence(4, 931), result="stale"),
        *message(20, 1_100, outcome="refused", detail="in-progress"),
        *message(21, 1_110, outcome="refused", detail="leased"),
        wished(22, 1_120, 1_130, "created", "id22"),
        wished(23, 1_125, 1_135, "refused", ""),
        wished(24, 1_140, 1_150, "created", "id24"),
        BatchAnswered(**at(1_200), numbers=(30,), outcome="acknowledged", replayed=(True,)),
        BatchAnswered(**at(1_210), numbers=(31,), outcome="refused", replayed=()),
        *message(40, 1_300, keyed=True, detail="replayed"),
        *message(41, 1_310, once=True, detail="replayed"),
    )


def test_each_race_is_counted() -> None:
    """And nothing else is."""
    assert races(planted()) == dict.fromkeys(RACES, 1)


def test_totals_add_up_and_are_told() -> None:
    """A line for each kind of message, each race and each kind of request."""
    totals = Totals()
    totals.add(totals_of(planted()))
    totals.add(totals_of(planted()))
    lines = totals.lines()
    assert [line.strip() for line in lines if line.strip().endswith(RACES[0])] == [f"2  {RACES[0]}"]
    assert {line.split()[0] for line in lines} >= {"plain", "atomic", "replace", "operation"}
