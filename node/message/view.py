"""Shows a message to clients: finds it by its id wherever it stands now, with its state and its history.

An id names the message's home. A message that was moved (retried, rescheduled, redriven) stands at another position.
Its present state is that at its place. The history over all its positions is found from its home.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgpack
import numpy as np
from msgspec.structs import replace

from api.contract.fields import MESSAGE
from api.port.loop_turn import in_turns
from api.port.message import Held, HistoryEvent, MessageView, Target
from api.port.problem import Problem
from node.settle.retry import describe, reason_of
from replication.apply.message.unheard import nobody_heard
from storage.format.array import U64
from storage.format.hold_reasons import HOLD_REASONS
from storage.format.message_id import BadId, decode_id
from storage.format.pieces import at_once
from storage.format.position import EVER_MS, GONE
from storage.format.rows import BY_RECEIPT, CODE_REDRIVEN, CODE_RESCHEDULED, CODE_RESENT, PLANNED, Settles
from storage.format.states import (
    CANCELLED,
    DELIVERED,
    FORWARDED,
    IS_PENDING,
    IS_SETTLED,
    LEASED,
    PENDING,
    READY_WORD,
    RELEASED,
    STATES,
    TELLS_FAILURE,
    UNKNOWN,
)
from storage.query.lease_end import lease_ends_ms
from storage.record.record import Record
from storage.store import Store
from storage.tables.topic import Topic, pause_of

MOVES: Final = (CODE_RESCHEDULED, CODE_REDRIVEN, CODE_RESENT)
"""Codes of moves on purpose. All others say why a hand-over failed."""

SCHEDULED_WORD: Final = STATES[PENDING].word

#: If a history changes while it is read in turns, it is read again, so many times in all. Then it is read at once.
TELL_MAX: Final = 4


class FoundMessage(NamedTuple):
    """A message that exists. `record` is the one at its `place`."""

    home: int
    place: int
    record: Record


def find(store: Store, id: str) -> FoundMessage:
    """Find the message that has this id. Raises `unknown-message`, also for text that is no id."""
    try:
        named = decode_id(id)
    except BadId as bad:
        raise Problem("unknown-message", f"this is no message id: {bad}") from None
    home = np.array([named.position], np.uint64)
    if named.group == store.group and store.cluster_id is not None and store.states(home).state[0] != UNKNOWN:
        place = store.last_place(named.position)
        if place == GONE:
            raise unknown_message()
        record = store.records(np.array([place], np.uint64))[0]
        if (record.position, record.random) == (named.position, named.random):
            return FoundMessage(named.position, place, record)
    raise unknown_message()


async def tell(store: Store, id: str) -> tuple[FoundMessage, Settles]:
    """Return the message of this id and its history, as of one moment. The history is read in pieces, and other work of
    the loop goes between them. If the message changed meanwhile, the history is read again."""
    for _ in range(TELL_MAX):
        found = find(store, id)
        at = np.unique(np.array([found.home, found.place], np.uint64))
        before = _as_of(store, at)
        told = await in_turns(store.history(found.home))
        if find(store, id).place == found.place and _as_of(store, at) == before:
            return found, told
    found = find(store, id)
    return found, at_once(store.history(found.home))


def _as_of(store: Store, places: U64) -> list[bytes]:
    """The states of these units as bytes. If a later call returns the same bytes, the states have not changed."""
    found = store.states(places)
    return [each.tobytes() for each in (found.state, found.attempt, found.term, found.lease_end_ms)]


def unknown_message() -> Problem:
    """The Problem for a message that never existed, or was removed after its retention."""
    return Problem("unknown-message", "no message has this id; it may be past its retention")


class PlaceState(NamedTuple):
    """The unit at a message's place: due time and attempt of the unit, its state, the attempt and the end of its newest
    lease."""

    due_ms: int
    unit_attempt: int
    state: int
    attempt: int
    lease_end_ms: int


def place_states(store: Store, places: U64, term: int) -> Iterator[PlaceState]:
    """Yield the unit and the state at each of these places. Leases end by the clock of the leader of this `term`."""
    units, found = store.units(places), store.states(places)
    ends_ms = lease_ends_ms(found.lease_end_ms, found.term, term)
    columns = (units["due_ms"], units["attempt"], found.state, found.attempt, ends_ms)
    return map(PlaceState, *(column.tolist() for column in columns))


class InOperation(NamedTuple):
    """When an operation cancelled a message, and since when one holds it to move it, ms. None if none does."""

    cancelled_ms: int | None = None
    held_ms: int | None = None


NO_OPERATION: Final = InOperation()


def view_message(
    store: Store,
    found: FoundMessage,
    id: str,
    *,
    stands: PlaceState,
    topic: Topic | None,
    now_ms: int,
    term: int,
    told: Settles,
    nodes: Sequence[str] | None = None,
    leads: bool = False,
    leased_ahead: tuple[int, int] | None = None,
    among: InOperation = NO_OPERATION,
) -> MessageView:
    """Make the answer to a GET in this `term`.

    - `stands`: the unit and the state at the message's place.
    - `topic`: the message's topic, None if it was dropped.
    - `told`: the history of the message (Store.history).
    - `nodes`: the names of the nodes, in the order of their numbers from 1. None: the answer has no history.
    - `leads`: true if this node leads in this term.
    - `leased_ahead`: (term, attempt) of a strict hand-over that has not begun. Only the leader knows it. Its lease is
      no hand-over yet, and is not shown.
    - `among`: what operations make of it, though no record says so yet.
    """
    record = found.record
    history, begun = _made(told, leased_ahead, None if leads else now_ms, term) if len(told) else (told, True)
    attempt = stands.attempt
    if not begun:
        attempt = int(store.before_newest(np.array([found.place], np.uint64))["attempt"][0])
    state = CANCELLED if among.cancelled_ms is not None else stands.state if begun else PENDING
    shown = _shown(state, stands.lease_end_ms, stands.due_ms, now_ms)
    handed_over_ms = handed_over_at(history, term, now_ms) if len(history) else None
    return MessageView(
        id=id.upper(),
        topic="" if topic is None else topic.name,
        state=shown,
        due_ms=stands.due_ms,
        asked_due_ms=record.asked_due_ms,
        created_ms=record.created_ms,
        revision=revision_of(record),
        attempt=max(attempt, stands.unit_attempt),
        body=record.body,
        content_type=record.content_type,
        tags=record.tags,
        headers=record.headers or None,
        key=record.key.decode() if record.key else None,
        handed_over_ms=handed_over_ms,
        settled_ms=among.cancelled_ms or (int(history[-1]["at_ms"]) if IS_SETTLED[stands.state] else None),
        lateness_ms=None if handed_over_ms is None or _moved_since(history) else handed_over_ms - record.asked_due_ms,
        last_error=_last_error(record, history),
        history=() if nodes is None else _events(record, history, nodes, term, now_ms),
        dead=dead_of(record),
        target=Target(**msgpack.unpackb(record.target)) if record.target else None,
        held=_held(shown, stands.due_ms, topic, among.held_ms),
        extension=MESSAGE.kept(record.extension),
    )


def view_untouched(record: Record, id: str, state: str, due_ms: int, topic: Topic | None, *, body: bool) -> MessageView:
    """Make the answer for a message of which the store has no settle record, as `view_message` would, in a fifth of the
    time. `state` is READY_WORD or SCHEDULED_WORD. Without `body` it has none."""
    return MessageView(
        id=id,
        topic="" if topic is None else topic.name,
        state=state,
        due_ms=due_ms,
        asked_due_ms=record.asked_due_ms,
        created_ms=record.created_ms,
        revision=1,
        attempt=0,
        body=record.body if body else b"",
        content_type=record.content_type,
        tags=record.tags,
        headers=record.headers or None,
        key=record.key.decode() if record.key else None,
        dead=dead_of(record) if record.extension else None,
        target=Target(**msgpack.unpackb(record.target)) if record.target else None,
        held=_held(state, due_ms, topic),
        extension=MESSAGE.kept(record.extension) if record.extension else {},
    )


def _held(shown: str, due_ms: int, topic: Topic | None, moved_ms: int | None = None) -> Held | None:
    """The rule that holds a message which is shown in this state. None if no rule holds it. `moved_ms`: since when an
    operation is about to move it."""
    if shown != READY_WORD:
        return None
    if moved_ms is not None:
        return Held(HOLD_REASONS["operation"].name, max(due_ms, moved_ms))
    if topic is None or (pause := pause_of(topic.settings)).until_ms != EVER_MS:
        return None
    return Held(HOLD_REASONS["pause"].name, max(due_ms, pause.since_ms) if pause.since_ms else None)


def revision_of(record: Record) -> int:
    """The message's revision: 1, and 1 more for each time it was rescheduled."""
    return int(record.extension.get("revision", 1))


def dead_of(record: Record) -> dict[str, Any] | None:
    """The facts that a dead-letter copy keeps of the message that it was made from. None for any other message."""
    dead = record.extension.get("dead")
    if dead is None:
        return None
    return {
        "id": dead["id"],
        "topic": dead["topic"],
        "reason": reason_of(dead["reason"]),
        "attempts": dead["attempts"],
        "error": dead["error"],
    }


def newest_lease(history: Settles) -> np.void | None:
    """The record of the newest hand-over, with the end of its lease as extended. None if there was none."""
    leases = history[history["what"] == LEASED]
    return leases[-1] if len(leases) else None


def handed_over_at(history: Settles, term: int, now_ms: int) -> int | None:
    """When the newest hand-over was made, ms. None if there was none, or if its time is not known in this `term` at
    `now_ms`."""
    leases = np.flatnonzero(history["what"] == LEASED)
    told = len(leases) and _is_told(history, int(leases[-1]), term, now_ms)
    return int(history[leases[-1]]["at_ms"]) if told else None


def _is_told(history: Settles, row: int, term: int, now_ms: int) -> bool:
    """True if time and node of a hand-over are known. Its lease is in this row of the history.

    They are not known if only an extend by receipt recorded the lease. They are also not known if the hand-over was
    planned and no outcome or extend shows that it began. At its time the leader may have been dead or stalled. While a
    planned lease of this term runs they count as known.
    """
    lease = history[row]
    if lease["code"] & BY_RECEIPT:
        return False
    if not lease["code"] & PLANNED or (lease["term"] >= term and lease["when"] > now_ms):
        return True
    later = history[row + 1 :]
    same = (later["term"] == lease["term"]) & (later["attempt"] == lease["attempt"])
    failed = TELLS_FAILURE[later["what"]] & ~np.isin(later["code"], MOVES)
    failed &= ~nobody_heard(later["code"], later["at_ms"], lease["when"])
    extended = (later["what"] == LEASED) & (later["code"] & PLANNED == 0)
    return bool((same & (failed | extended | (later["what"] == DELIVERED))).any())


def _moved_since(history: Settles) -> bool:
    """True if a client moved the message after its newest hand-over. That hand-over was then for another due time."""
    what = history["what"]
    after = history[np.flatnonzero(what == LEASED)[-1] :]
    return bool(((after["what"] == FORWARDED) & np.isin(after["code"], MOVES)).any())


def _made(
    history: Settles, leased_ahead: tuple[int, int] | None, now_ms: int | None, term: int
) -> tuple[Settles, bool]:
    """The history without leases whose hand-overs were not made, and True if the hand-over of the newest lease has
    begun.

    A lease that was taken back led to no hand-over. The hand-over of the newest lease may not have begun yet. The
    leader knows that by `leased_ahead`. It gives None for `now_ms`, because its clock may have gone back. For another
    node, the hand-over of a planned lease of this term has not begun before its time. If an earlier leader planned the
    lease, its hand-over counts as begun.
    """
    what = history["what"]
    keep = np.ones(len(history), np.bool_)
    released = np.flatnonzero(what == RELEASED)
    keep[released] = keep[released[released > 0] - 1] = False
    begun = True
    if len(history) and what[-1] == LEASED:
        newest = history[-1]
        later = now_ms is not None and int(newest["code"]) & PLANNED and int(newest["at_ms"]) > now_ms
        begun = not (later and newest["term"] >= term) and (int(newest["term"]), int(newest["attempt"])) != leased_ahead
        keep[-1] = begun
    return history[keep], begun


def _shown(state: int, lease_end_ms: int, due_ms: int, now_ms: int) -> str:
    """The word that clients see for a message whose unit at its place is in this state. A pending one is scheduled or
    ready, by its due time. A lease that has ended counts as pending."""
    if state == LEASED and lease_end_ms > now_ms:
        return STATES[LEASED].word
    if IS_PENDING[state] or state == LEASED:
        return READY_WORD if due_ms <= now_ms else STATES[PENDING].word
    return STATES[state].word


def _last_error(record: Record, history: Settles) -> str | None:
    """Say why the newest failed hand-over failed. The error text is in the record that the retry after a failure made.
    If the message died of its last failure, there is no such record, and the text is that of the failure before."""
    said = str(record.extension.get("error", ""))
    failures = history[TELLS_FAILURE[history["what"]] & ~np.isin(history["code"], MOVES)] if len(history) else history
    if not len(failures):
        return said or None
    last = failures[-1]
    if last["what"] == FORWARDED:
        return describe(int(last["code"]), said) or None
    reason = reason_of(int(last["code"]))
    if len(failures) == 1 or not said:
        return reason or None
    return f"{reason}; before: {describe(int(failures[-2]['code']), said)}"


def _events(record: Record, history: Settles, nodes: Sequence[str], term: int, now_ms: int) -> list[HistoryEvent]:
    """The history as events, in the words of the states. Each extend of a lease is a record with the time of the
    hand-over. All records of one lease are one event."""
    events = [HistoryEvent(record.created_ms, "scheduled", "", 0, 0)]
    for at, row in enumerate(history):
        said = STATES[int(row["what"])].event
        event = HistoryEvent(int(row["at_ms"]), said, "", int(row["term"]), int(row["attempt"]))
        leased = row["what"] == LEASED
        if leased and not _is_told(history, at, term, now_ms):
            event = replace(event, at_ms=None)
        elif 0 < row["node"] <= len(nodes):
            event = replace(event, node=nodes[row["node"] - 1])
        if not leased or event != events[-1]:
            events.append(event)
    return events
