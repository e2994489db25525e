"""Hands new messages to the proposer. Before that it refuses messages for reasons that only the leader knows, and
afterwards it makes the answer.

A message must have somewhere to go, which depends on its topic's settings. The leader has those, so it checks that here
and not the node that parsed the request. For a usual batch (no target in a message, no topic in push mode) the check
only looks up its topics.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from api.port.port import MessageIn
from api.port.problem import FieldFault, Problem
from node.port.draft import TO_COME, Draft, check_draft, rows_of
from node.port.message_port import Scheduled, ScheduledRow, Superseded
from node.port.refusal import Refusal
from node.runtime.clock import NodeClock
from node.write.command_queues import problem_of
from node.write.message_queue import Part
from node.write.once_queue import Requests
from node.write.proposer import Proposer
from storage.format.schedule_status import FAILED
from storage.store import Store

#: The result of a row that was not written.
NOTHING: Final = ScheduledRow(0, 0, 0, FAILED)

_topics = attrgetter("topic")
_targets = attrgetter("target")
_to_come = attrgetter(*TO_COME)


async def schedule_one(
    store: Store, proposer: Requests, limits: WriteLimits, clock: NodeClock, message: MessageIn | Draft
) -> ScheduledRow:
    """Schedule a request's only message. It is durable on a majority and applied on return. Raises the message's
    refusal, or BadColumns for a draft that is not well formed."""
    messages = message if isinstance(message, Draft) else (message,)
    problems = problems_of(store, messages, limits, clock)
    if problems:
        raise problems[0]
    ((_, _, result),) = await proposer.schedule(messages)
    if isinstance(result, str):
        raise problem_of(result)
    assert isinstance(result, ScheduledRow), "one message, one row"
    return result


async def schedule_messages(
    store: Store,
    proposer: Proposer,
    limits: WriteLimits,
    clock: NodeClock,
    messages: Sequence[MessageIn] | Draft,
    requests: int = 1,
) -> Scheduled:
    """Schedule messages that came in `requests` requests of clients. They are durable on a majority and applied on
    return. In a batch each message at fault has its own problem, and the others are scheduled. The problem of a single
    message is raised. Raises BadColumns for a draft that is not well formed."""
    if len(messages) == 1:
        message = messages if isinstance(messages, Draft) else messages[0]
        return _columns_of(await schedule_one(store, proposer, limits, clock, message))
    problems = problems_of(store, messages, limits, clock)
    if len(problems) == len(messages):
        return join([], len(messages), problems)
    if not problems:
        return _whole(await proposer.schedule(messages, requests), len(messages))
    rows = [row for row in range(len(messages)) if row not in problems]
    left = rows_of(messages, rows) if isinstance(messages, Draft) else [messages[row] for row in rows]
    found = _whole(await proposer.schedule(left, min(requests, len(rows))), len(rows))
    return _spread(found, rows, len(messages), problems)


def join_rows(rows: Sequence[ScheduledRow | Refusal]) -> Scheduled:
    """Join the results of a batch that was written message by message."""
    columns = [bytearray() for _ in range(3)]
    status, refused, before = bytearray(), dict[int, Refusal](), dict[int, Superseded]()
    for at, row in enumerate(rows):
        if isinstance(row, Refusal):
            refused[at], row = row, NOTHING
        elif row.before is not None:
            before[at] = row.before
        for column, value in zip(columns, (row.position, row.random, row.due_ms), strict=True):
            column += value.to_bytes(8, "little")
        status.append(row.status)
    position, random, due_ms = map(bytes, columns)
    return Scheduled(position, random, due_ms, bytes(status), refused, before)


def problems_of(
    store: Store, messages: Sequence[MessageIn] | Draft, limits: WriteLimits, clock: NodeClock
) -> dict[int, Problem]:
    """The refusals of messages, by row, for reasons that only the leader knows. Raises BadColumns for a draft that is
    not well formed."""
    if isinstance(messages, Draft):
        check_draft(messages)
        return refused_draft(store, messages, limits, clock.now_ms())
    return refused(store, messages, limits)


def _whole(parts: Sequence[Part], rows: int) -> Scheduled:
    """The result of all `rows` rows of a request. If all rows went in one entry and it failed, raises the Problem for
    its error."""
    if len(parts) > 1:
        return join(parts, rows, {})
    _, _, result = parts[0]
    if isinstance(result, str):
        raise problem_of(result)
    return _columns_of(result) if isinstance(result, ScheduledRow) else result


def _columns_of(row: ScheduledRow) -> Scheduled:
    position, random, due_ms = (value.to_bytes(8, "little") for value in (row.position, row.random, row.due_ms))
    return Scheduled(position, random, due_ms, bytes((row.status,)))


class WriteLimits(NamedTuple):
    """Limits of new messages. `topics`: schedules create no more topics when there are so many. `delay_ms`: a due time
    may be so far ahead of now."""

    topics: int
    delay_ms: int


def refused(store: Store, messages: Sequence[MessageIn], limits: WriteLimits) -> dict[int, Problem]:
    """The refusals of these messages, by row number. A message is refused if its target does not fit its topic's
    present mode, or if it would create a topic beyond the limit."""
    if len(messages) == 1 and messages[0].target is None:  # a message that comes alone: 0.2 us instead of 0.7
        topic = store.catalog.topic(messages[0].topic)
        if topic is not None and topic.settings.get("mode") != "push":
            return {}
    asked = _Asked(store, dict.fromkeys(map(_topics, messages)), limits)
    if not asked.is_odd and not any(map(_targets, messages)):
        return {}
    return asked.refusals((message.topic, message.target is not None) for message in messages)


def refused_draft(store: Store, draft: Draft, limits: WriteLimits, now_ms: int) -> dict[int, Problem]:
    """The refusals of a draft's rows, as `refused` has them. Also refused are messages that are too far ahead by this
    node's clock, though the front's clock let them through. Raises `not-supported-yet` for the whole draft if it has
    columns that this build does not know."""
    if len(draft) == 1 and _is_usual(store, draft, limits, now_ms):  # a message that comes alone: 1 us instead of 10
        return {}
    for name in TO_COME:
        if getattr(draft, name):
            detail = f"this node knows no message with {name}; upgrade it"
            raise Problem("not-supported-yet", detail, errors=[FieldFault(f"/{name}", detail)])
    due_ms, relative = np.frombuffer(draft.due_ms, np.int64), np.frombuffer(draft.relative, np.uint8)
    late = np.flatnonzero(due_ms - np.where(relative, 0, now_ms) > limits.delay_ms)
    asked = _Asked(store, dict.fromkeys(draft.topics), limits)
    problems = {}
    if asked.is_odd or draft.targeted:
        names = map(draft.topics.__getitem__, np.frombuffer(draft.topic, np.uint16).tolist())
        targeted = map(bool, draft.targeted or bytes(len(draft)))
        problems = asked.refusals(zip(names, targeted, strict=True), frozenset(late.tolist()))
    for row in late.tolist():
        detail = f"it is due more than {limits.delay_ms} ms from now, the most that is taken"
        problems.setdefault(row, Problem("beyond-max-delay", detail, errors=[FieldFault("/deliver_at", detail)]))
    return problems


def _is_usual(store: Store, draft: Draft, limits: WriteLimits, now_ms: int) -> bool:
    """True if a draft of one row is surely accepted. If it returns False, the caller makes the full check."""
    if any(_to_come(draft)):
        return False
    ahead_ms = int.from_bytes(draft.due_ms, "little", signed=True) - (0 if draft.relative[0] else now_ms)
    topic = store.catalog.topic(draft.topics[0])
    return not draft.targeted and ahead_ms <= limits.delay_ms and topic is not None and not _pushes(topic.settings)


def _pushes(settings: Mapping[str, object]) -> bool:
    return settings.get("mode") == "push"


class _Asked:
    """The topics that a request names, with their present settings. `is_odd` is True if some of these topics are in
    push mode, or if more of them are new than may be created."""

    def __init__(self, store: Store, names: Iterable[str], limits: WriteLimits) -> None:
        self._most = limits.topics
        self._settings: dict[str, Mapping[str, object]] = {}
        made = []
        for name in names:
            topic = store.catalog.topic(name)
            self._settings[name] = topic.settings if topic is not None else {}
            if topic is None:
                made.append(name)
        self._room = max(0, limits.topics - store.catalog.topic_count)
        self._made = frozenset(made)
        self.is_odd = len(made) > self._room or any(each.get("mode") == "push" for each in self._settings.values())

    def refusals(self, rows: Iterable[tuple[str, bool]], refused: Container[int] = ()) -> dict[int, Problem]:
        """The refusals by row number. For each message, `rows` has the name of its topic, and True if it has a target
        of its own. `refused` are rows that were refused before. A refused row creates no topic, so it does not use up
        the limit of topics."""
        problems: dict[int, Problem] = {}
        made: set[str] = set()
        for row, (name, targeted) in enumerate(rows):
            if (fault := _fault(name, self._settings[name], targeted)) is not None:
                problems[row] = Problem("invalid-field", fault, errors=[FieldFault("/target", fault)])
            elif row in refused or name not in self._made or name in made:
                continue
            elif len(made) < self._room:
                made.add(name)
            else:
                detail = f"there are {self._most} topics, as many as schedules make; delete some, or make {name} by PUT"
                problems[row] = Problem("over-limit", detail, errors=[FieldFault("/topic", detail)])
        return problems


def _fault(name: str, settings: Mapping[str, object], targeted: bool) -> str | None:
    if settings.get("mode", "pull") != "push":
        if not targeted:
            return None
        return f"topic {name} is in pull mode and pushes nothing; leave target out, or set its mode to push first"
    target = settings.get("target")
    if not targeted and not (isinstance(target, dict) and target.get("url")):
        return f"topic {name} is in push mode and has no target; send target.url, or set the topic's target first"
    return None


def join(parts: Sequence[Part], rows: int, problems: Mapping[int, Problem]) -> Scheduled:
    """Join the parts of a batch that went in several entries into one result of `rows` rows. Rows without a part are in
    `problems`."""
    refused = _refusals(problems)
    columns = [bytearray(8 * rows) for _ in range(3)]
    status = bytearray([FAILED]) * rows
    for start, count, part in parts:
        if isinstance(part, str):
            refused.update(dict.fromkeys(range(start, start + count), Refusal.of(problem_of(part))))
            continue
        assert isinstance(part, Scheduled), "a part of several rows"
        for column, values in zip(columns, (part.position, part.random, part.due_ms), strict=True):
            column[8 * start : 8 * (start + count)] = values
        status[start : start + count] = part.status
    return Scheduled(bytes(columns[0]), bytes(columns[1]), bytes(columns[2]), bytes(status), refused)


def _refusals(problems: Mapping[int, Problem]) -> dict[int, Refusal]:
    return {row: Refusal.of(problem) for row, problem in problems.items()}


def _spread(found: Scheduled, rows: Sequence[int], count: int, problems: Mapping[int, Problem]) -> Scheduled:
    """Make the result of a whole batch of `count` rows from `found`, the result of its rows `rows`, and the `problems`
    of the others."""
    at = np.array(rows)
    columns = []
    for column in (found.position, found.random, found.due_ms):
        words = np.zeros(count, np.uint64)
        words[at] = np.frombuffer(column, np.uint64)
        columns.append(words.tobytes())
    status = np.full(count, FAILED, np.uint8)
    status[at] = np.frombuffer(found.status, np.uint8)
    return Scheduled(
        columns[0],
        columns[1],
        columns[2],
        status.tobytes(),
        _refusals(problems) | {rows[row]: refusal for row, refusal in found.refused.items()},
    )
