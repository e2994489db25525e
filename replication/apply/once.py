"""Applies Once: each request under an `Idempotency-Key` has its effect one time.

A request whose key has an answer already is void, it alone and not its entry. The others are applied in their places
among the commands of the entry, and their answers are kept at once. So of two requests in one entry the first counts.
Only a request that succeeds keeps an answer. A refusal lets the key go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from replication.apply.applying import Applying
from replication.apply.message.cancel import CANCELLED, Cancelled
from replication.apply.message.move import RESCHEDULED, Rescheduled
from replication.apply.message.schedule import Scheduled
from replication.apply.message.supersede import Superseded
from replication.apply.operation import BEGUN, Begun
from replication.apply.topic import DROPPED, TopicPut
from replication.command.entry import EntryRefused, Kind, Section
from replication.command.once import KeyedRequest, Once
from storage.format.schedule_status import FAILED
from storage.tables.idempotency import KeptAnswer
from storage.tables.registry import IDEMPOTENCY

_NONE: Final[Mapping[int, KeyedRequest]] = {}

Values = tuple[int, ...]


def _of_cancel(result: Cancelled) -> Values | None:
    return (int(result.attempts[0]), int(result.prior[0])) if result.result[0] == CANCELLED else None


def _of_reschedule(result: Rescheduled) -> Values | None:
    return (int(result.due_ms[0]), int(result.revision[0])) if result.result[0] == RESCHEDULED else None


def _of_columns(result: Scheduled | Superseded) -> Values | None:
    return None if result.status[0] == FAILED else tuple(int(column[0]) for column in result)


def _of_put(result: TopicPut) -> Values | None:
    return () if result.changed else None


def _of_drop(result: int) -> Values | None:
    return () if result == DROPPED else None


def _of_begin(result: Begun) -> Values | None:
    return (result.value,) if result.result == BEGUN else None


VALUES_OF: Final[dict[int, Callable[[Any], Values | None]]] = {
    Kind.CANCEL: _of_cancel,
    Kind.RESCHEDULE: _of_reschedule,
    Kind.PUT_TOPIC: _of_put,
    Kind.DROP_TOPIC: _of_drop,
    Kind.SCHEDULE: _of_columns,
    Kind.SUPERSEDE: _of_columns,
    Kind.BEGIN_OPERATION: _of_begin,
}
"""For each command that may stand under a key: the numbers of its result that are kept. None of a refusal."""


def keyed_requests(commands: Iterable[Any], sections: Sequence[Section]) -> Mapping[int, KeyedRequest]:
    """The keyed requests of an entry's commands, by the numbers of their sections. Raises `EntryRefused` unless each is
    a section of one row, of a command that may have a key."""
    keyed = next((command.requests for command in commands if type(command) is Once), _NONE)
    for number in keyed:
        if not 0 <= number < len(sections):
            raise EntryRefused(f"a key of section {number} in an entry of {len(sections)}")
        section = sections[number]
        if section.kind not in VALUES_OF or section.rows != 1:
            raise EntryRefused(f"a key of section {number}, of kind {section.kind} and with {section.rows} rows")
    return keyed


def apply_once(applying: Applying, command: Once) -> None:
    """Forget answers that are too old. The machine carries out the requests in their places (`carried_out`)."""
    applying.store.catalog.of(IDEMPOTENCY).forget(applying.envelope.now_ms)


def carried_out(applying: Applying, request: KeyedRequest, number: int, kind: int, apply: Callable[[], Any]) -> Any:
    """Carry out a keyed request, section `number` of its entry, by `apply`. Keep its answer, and return its result.
    Return the KeptAnswer instead if its key has one."""
    answers, now_ms = applying.store.catalog.of(IDEMPOTENCY), applying.envelope.now_ms
    kept = answers.find(request.namespace, request.key, now_ms)
    if kept is not None:
        return kept
    result = apply()
    values = VALUES_OF[kind](result)
    if values is not None:
        answer = KeptAnswer(
            now_ms, applying.index, number, request.call, request.fingerprint, request.principal, values, request.note
        )
        answers.put(request.namespace, request.key, answer)
    return result
