"""Applies PutTopic, which changes a topic's settings, and DropTopic, which removes a topic.

No node looks through its hours for messages of a dropped topic, because that would hold up apply. The leader has looked
before it proposed the command. The command must stand in the log right behind the newest entry that the leader had
applied when it looked. And no command before it in its own entry may append a unit. If one of these is not so, the
DropTopic has no effect. All nodes have the same log up to there, so the topic is empty on all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replication.apply.applying import Applying
from replication.apply.message.doubtful import STRICT_DOUBT, STRICT_SINCE
from replication.command.topic import DropTopic, PutTopic
from storage.catalog.doubt import NO_DOUBT
from storage.format.level import has
from storage.tables.topic import PAUSED_SINCE, RESUMED_AT, Topic


@dataclass(frozen=True, slots=True)
class TopicPut:
    """Result of PutTopic: the whole topic. `changed` is False if the topic's revision is not the one that the client
    expects.
    """

    topic: Topic | None
    changed: bool


def apply_put_topic(applying: Applying, command: PutTopic) -> TopicPut:
    """Create a topic or change its settings. Changes nothing if its revision is not the one that the client expects."""
    store, envelope = applying.store, applying.envelope
    topic = store.catalog.topic(command.name, command.namespace)
    if command.revision and (topic is None or topic.revision != command.revision):
        return TopicPut(topic, False)
    old = {} if command.replace or topic is None else topic.settings
    settings = _merged(old, command.settings)
    settings.pop(STRICT_SINCE, None)
    settings.pop(STRICT_DOUBT, None)
    if settings.get("handover") == "strict":
        before = topic.settings if topic is not None else {}
        settings[STRICT_SINCE] = before.get(STRICT_SINCE, envelope.now_ms)
        doubt = NO_DOUBT if topic is None else store.doubt
        # Until the Promotion of this term is applied, more units may be in doubt than the store says.
        said = topic is None or store.doubt.term == envelope.term
        if STRICT_DOUBT in before or (STRICT_SINCE not in before and said and has(store.level, "doubt")):
            settings[STRICT_DOUBT] = before.get(STRICT_DOUBT, doubt.until_ms)
    if has(store.level, "pause-times"):
        _mark_pause(settings, topic.settings if topic is not None else {}, envelope.now_ms)
    topic = store.catalog.put_topic(command.name, settings, now_ms=envelope.now_ms, namespace=command.namespace)
    applying.told.topics([topic.number])
    return TopicPut(topic, True)


def _mark_pause(settings: dict[str, Any], before: dict[str, Any], now_ms: int) -> None:
    """Note in the new settings of a topic since when it is paused, or when it was resumed last."""
    for mark in (PAUSED_SINCE, RESUMED_AT):
        settings.pop(mark, None)
        if mark in before:
            settings[mark] = before[mark]
    was_paused, is_paused = before.get("paused", False), settings.get("paused", False)
    if is_paused and not was_paused:
        settings[PAUSED_SINCE] = now_ms
        settings.pop(RESUMED_AT, None)
    elif was_paused and not is_paused:
        settings[RESUMED_AT] = now_ms


DROPPED, UNKNOWN, MISMATCH, CHANGED = 0, 1, 2, 3
"""Results of DropTopic, in this order: it was removed; there is no such topic; the topic has another revision than the
client expects; messages may have come since the leader looked for some."""


def apply_drop_topic(applying: Applying, command: DropTopic) -> int:
    """Remove the topic. Returns DROPPED, UNKNOWN, MISMATCH or CHANGED.

    Its number is never given again. So the ended messages and keys that it leaves belong to no other topic.
    """
    store = applying.store
    topic = store.catalog.topic(command.name, command.namespace)
    if topic is None:
        return UNKNOWN
    if command.revision not in (0, topic.revision):
        return MISMATCH
    if applying.index != command.index or store.unit_count != command.units:
        return CHANGED
    store.catalog.drop_topic(topic.number)
    applying.told.dropped(topic.number)
    return DROPPED


def _merged(old: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """The settings `old` with the changes in `change`. A value None removes its setting. A map, such as the target, is
    merged field by field.
    """
    merged = dict(old)
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            before = merged.get(name)
            fields = {**(before if isinstance(before, dict) else {}), **value}
            merged[name] = {field: item for field, item in fields.items() if item is not None}
        else:
            merged[name] = value
    return merged
