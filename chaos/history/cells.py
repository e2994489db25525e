"""How often each kind of message met each event, and how often each race of a set, a key or a batch took place.

`cells` and `races` only count. The checkers say whether the service did right.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from chaos.history.event import (
    MANY,
    Accounted,
    Acked,
    Answered,
    BatchAnswered,
    Cancelled,
    DeadLettered,
    Ended,
    Gone,
    HandedOver,
    ManyCancelled,
    ManyMoved,
    Nacked,
    Promoted,
    Recalled,
    Redriven,
    RequestAnswered,
    Rescheduled,
    Wished,
)
from chaos.history.history import History

KINDS: Final = ("plain", "key", "replaced", "extended", "batch", "atomic", "once")
EVENTS: Final = (
    "retry",
    "cancel",
    "reschedule",
    "operation",
    "dead letter",
    "redrive",
    "transfer",
    "failover",
    "strict failover",
    "ledger",
    "restore",
)
RACES: Final = (
    "a leader dies while a set is worked off",
    "a member of a set is leased",
    "DELETE of a member of a set",
    "PATCH of a member of a set: in-progress",
    "replace or extend of a member of a set: in-progress",
    "an ack for a member of a set",
    "an ack for what an operation cancelled: stale",
    "a member of a set fails",
    "an operation meets a running one: in-progress",
    "wishes at once for one key",
    "a replace of a leased holder: leased",
    "a wish creates beside a holder that ended or is leased",
    "an atomic batch is sent again and replayed",
    "an atomic batch is refused for one line",
    "a message under a key of its own is sent again and replayed",
    "a request under an Idempotency-Key is sent again and replayed",
)
NEVER: Final = float("inf")

Cell = tuple[str, str]
"""One of KINDS and one of EVENTS."""


def cells(history: History) -> Counter[Cell]:
    """The number of messages of each kind that met each event, at least once. A message may be of several kinds."""
    met = _met(history)
    return Counter(
        (kind, event) for number, kinds in _kinds(history).items() for kind in kinds for event in met[number]
    )


def _kinds(history: History) -> dict[int, set[str]]:
    offered = history.offered()
    atomic = {number for batch in history.of(BatchAnswered) for number in batch.numbers}
    replaced = {wish.number for wish in history.of(Wished) if wish.outcome == "replaced"}
    extended = {wish.message_id for wish in history.of(Wished) if wish.outcome == "extended"}
    wished = {wish.number for wish in history.of(Wished)}
    at_once = Counter(offer.mono_ms for offer in offered.values())
    found: dict[int, set[str]] = {}
    for number, answer in history.acknowledged().items():
        offer = offered[number]
        if number in wished:
            kinds = {"replaced"} if number in replaced else set()
            found[number] = kinds | ({"extended"} if answer.message_id in extended else set())
        elif number in atomic:
            found[number] = {"atomic"}
        elif offer.once:
            found[number] = {"once"}
        else:
            batch = at_once[offer.mono_ms] > 1
            found[number] = {"key" if offer.keyed else "plain"} | ({"batch"} if batch else set())
    return found


def _met(history: History) -> defaultdict[int, set[str]]:
    offered, acknowledged, redriven = history.offered(), history.acknowledged(), history.redriven()
    met: defaultdict[int, set[str]] = defaultdict(set)
    last_ms: dict[int, float] = {}
    for event in history.events:
        if isinstance(event, HandedOver | Acked | Cancelled | DeadLettered | Gone):
            last_ms[event.number] = event.mono_ms
        if isinstance(event, HandedOver) and event.attempt > 1:
            met[event.number].add("retry")
        elif isinstance(event, Cancelled) and event.outcome == "cancelled":
            met[event.number].add("cancel")
        elif isinstance(event, Rescheduled) and event.outcome == "moved":
            met[event.number].add("operation" if event.detail == MANY else "reschedule")
        elif isinstance(event, Gone):
            met[event.number].add("operation")
        elif isinstance(event, DeadLettered):
            met[event.number].add("dead letter")
        elif isinstance(event, Accounted):
            met[event.number].add("ledger")
        elif isinstance(event, Recalled):
            met[event.number].add("restore")
    promoted = history.of(Promoted)
    for number, answer in acknowledged.items():
        if answer.message_id in redriven:
            met[number].add("redrive")
        for begin in promoted:
            if answer.mono_ms < begin.mono_ms < last_ms.get(number, 0.0):
                failover = "strict failover" if offered[number].strict else "failover"
                met[number].add("transfer" if begin.given else failover)
    return met


class _Set(NamedTuple):
    """An operation that was begun: its topic and window, and the time from its call until it was seen to have ended."""

    topic: str
    window: range
    from_ms: float
    to_ms: float
    leased: int


def races(history: History) -> Counter[str]:
    """How often each of RACES took place, as far as clients can see."""
    found: Counter[str] = Counter()
    found.update(_races_of_sets(history))
    found.update(_races_of_keys(history))
    return found


def _sets(history: History) -> Iterator[_Set]:
    called = {(call.kind, call.name): call for call in history.of(RequestAnswered)}
    operations: list[ManyCancelled | ManyMoved] = [*history.of(ManyCancelled), *history.of(ManyMoved)]
    for each in operations:
        kind = each.kind if isinstance(each, ManyMoved) else "cancel"
        name = f"{kind} {each.from_ms} {each.to_ms}"
        if each.operation:
            from_ms, to_ms = called["operation", name].asked_mono_ms, called["running", name].mono_ms
            yield _Set(each.topic, range(each.from_ms, each.to_ms), from_ms, to_ms, each.leased)


def _races_of_sets(history: History) -> Iterator[str]:
    offered, acknowledged = history.offered(), history.acknowledged()
    sets = list(_sets(history))
    gone = {event.number for event in history.of(Gone)}
    by_id = {answer.message_id: number for number, answer in acknowledged.items()}

    def member(number: int | None, at_ms: float) -> bool:
        if number is None or number not in acknowledged:
            return False
        topic, due_ms = offered[number].topic, acknowledged[number].due_ms
        return any(
            each.topic == topic and due_ms in each.window and each.from_ms <= at_ms <= each.to_ms for each in sets
        )

    for each in sets:
        yield from ["a member of a set is leased"] * each.leased
        if any(each.from_ms < begin.mono_ms < each.to_ms and not begin.given for begin in history.of(Promoted)):
            yield "a leader dies while a set is worked off"
    for event in history.events:
        if isinstance(event, Cancelled) and event.outcome == "cancelled" and member(event.number, event.mono_ms):
            yield "DELETE of a member of a set"
        elif isinstance(event, Rescheduled) and event.detail == "in-progress":
            yield "PATCH of a member of a set: in-progress"
        elif isinstance(event, Answered) and event.detail == "in-progress":
            yield "replace or extend of a member of a set: in-progress"
        elif isinstance(event, Acked) and event.result == "acked" and member(event.number, event.mono_ms):
            yield "an ack for a member of a set"
        elif isinstance(event, Acked) and event.result == "stale" and event.number in gone:
            yield "an ack for what an operation cancelled: stale"
        elif isinstance(event, Ended | Nacked):
            refused = isinstance(event, Nacked) and event.result != "nacked"
            if not refused and member(by_id.get(event.message_id), event.mono_ms):
                yield "a member of a set fails"
        elif isinstance(event, ManyCancelled | ManyMoved | Redriven) and event.detail == "in-progress":
            yield "an operation meets a running one: in-progress"


def _races_of_keys(history: History) -> Iterator[str]:
    offered = history.offered()
    by_name: defaultdict[str, list[Wished]] = defaultdict(list)
    for wish in history.of(Wished):
        by_name[wish.name].append(wish)
    for wishes in by_name.values():
        holds = False
        until_ms = -NEVER
        for wish in sorted(wishes, key=lambda each: each.asked_mono_ms):
            if wish.asked_mono_ms < until_ms:
                yield "wishes at once for one key"
            until_ms = max(until_ms, wish.mono_ms)
            if wish.outcome == "created" and holds:
                yield "a wish creates beside a holder that ended or is leased"
            holds = holds or bool(wish.message_id)
    for answer in history.of(Answered):
        if answer.detail == "leased":
            yield "a replace of a leased holder: leased"
        elif answer.detail == "replayed":
            once = offered[answer.number].once
            yield (
                "a request under an Idempotency-Key is sent again and replayed"
                if once
                else "a message under a key of its own is sent again and replayed"
            )
    for batch in history.of(BatchAnswered):
        if any(batch.replayed):
            yield "an atomic batch is sent again and replayed"
        elif batch.outcome == "refused":
            yield "an atomic batch is refused for one line"
