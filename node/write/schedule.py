"""New messages on their way to the proposer: what only the leader can refuse, row by row, and the answer put together.

Whether a message has somewhere to go depends on its topic's settings, so it is asked here and not where the request
was parsed. A batch in which no message has a target of its own and no topic is in push mode costs a set of its topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from operator import attrgetter

import numpy as np

from api.port.port import MessageIn
from api.port.problem import FieldFault, Problem
from node.port.message_port import Scheduled
from node.port.refusal import Refusal
from node.write.command_queues import problem_of
from node.write.message_queue import Part
from node.write.proposer import Proposer
from storage.format.schedule_status import FAILED
from storage.store import Store

_topics = attrgetter("topic")
_targets = attrgetter("target")


async def schedule_messages(
    store: Store, proposer: Proposer, topics_max: int, messages: Sequence[MessageIn]
) -> Scheduled:
    """Durable on a majority and applied when it returns. A single message's refusal is raised; in a batch each message
    at fault has its own problem, and the others go on."""
    problems = refused(store, messages, topics_max)
    if problems and len(problems) == len(messages) == 1:
        raise problems[0]
    if len(problems) == len(messages):
        return join([], len(messages), problems)
    if not problems:
        parts = await proposer.schedule(messages)
        if len(parts) == 1:
            _, _, result = parts[0]
            if isinstance(result, str):
                raise problem_of(result)
            return result
        return join(parts, len(messages), {})
    rows = [row for row in range(len(messages)) if row not in problems]
    found = await schedule_messages(store, proposer, topics_max, [messages[row] for row in rows])
    return _spread(found, rows, len(messages), problems)


def refused(store: Store, messages: Sequence[MessageIn], topics_max: int) -> dict[int, Problem]:
    """By row, the messages whose target does not go with their topic's mode as it is now; and those that would make a
    topic too many."""
    if len(messages) == 1 and messages[0].target is None:  # what comes by itself: 0.2 us instead of 0.7
        topic = store.catalog.topic(messages[0].topic)
        if topic is not None and topic.settings.get("mode") != "push":
            return {}
    settings, room, made = {}, topics_max - store.catalog.topic_count, set[str]()
    for name in dict.fromkeys(map(_topics, messages)):
        topic = store.catalog.topic(name)
        settings[name] = topic.settings if topic is not None else {}
        if topic is None:
            made.add(name)
    if len(made) > room:
        made = set(islice((name for name in settings if name in made), max(0, room), None))
    else:
        made.clear()
    if not (made or any(each.get("mode") == "push" for each in settings.values()) or any(map(_targets, messages))):
        return {}
    problems = {}
    for row, message in enumerate(messages):
        if message.topic in made:
            detail = (
                f"there are {topics_max} topics, as many as schedules make; delete some, or make {message.topic} by PUT"
            )
            problems[row] = Problem("over-limit", detail, errors=[FieldFault("/topic", detail)])
            continue
        fault = _fault(message, settings[message.topic])
        if fault is not None:
            problems[row] = Problem("invalid-field", fault, errors=[FieldFault("/target", fault)])
    return problems


def _fault(message: MessageIn, settings: dict[str, object]) -> str | None:
    name = message.topic
    if settings.get("mode", "pull") != "push":
        if message.target is None:
            return None
        return f"topic {name} is in pull mode and pushes nothing; leave target out, or set its mode to push first"
    target = settings.get("target")
    if message.target is None and not (isinstance(target, dict) and target.get("url")):
        return f"topic {name} is in push mode and has no target; send target.url, or set the topic's target first"
    return None


def join(parts: Sequence[Part], rows: int, problems: Mapping[int, Problem]) -> Scheduled:
    """One result out of the parts of a batch that went in several entries; rows without part are in `problems`."""
    refused = {row: Refusal.of(problem) for row, problem in problems.items()}
    columns = [bytearray(8 * rows) for _ in range(3)]
    status = bytearray([FAILED]) * rows
    for start, count, part in parts:
        if isinstance(part, str):
            refused.update(dict.fromkeys(range(start, start + count), Refusal.of(problem_of(part))))
            continue
        for column, values in zip(columns, (part.position, part.random, part.due_ms), strict=True):
            column[8 * start : 8 * (start + count)] = values
        status[start : start + count] = part.status
    return Scheduled(bytes(columns[0]), bytes(columns[1]), bytes(columns[2]), bytes(status), refused)


def _spread(found: Scheduled, rows: Sequence[int], count: int, problems: Mapping[int, Problem]) -> Scheduled:
    """The result of some rows of a batch as that of the whole batch."""
    whole, at = join([], count, problems), np.array(rows)
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
        whole.refused | {rows[row]: refusal for row, refusal in found.refused.items()},
    )
