"""How a PutTopic changes a topic's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from replication.command import PutTopic
from replication.envelope import Envelope
from storage.store import Store
from storage.topic import Topic


@dataclass(frozen=True, slots=True)
class TopicPut:
    """Result of PutTopic: the whole topic; `changed` is False when `revision` was not the client's."""

    topic: Topic | None
    changed: bool


def apply_put_topic(store: Store, command: PutTopic, envelope: Envelope) -> TopicPut:
    """Create a topic or change its settings."""
    topic = store.catalog.topic(command.name, command.namespace)
    if command.revision and (topic is None or topic.revision != command.revision):
        return TopicPut(topic, False)
    old = {} if command.replace or topic is None else topic.settings
    settings = _merged(old, command.settings)
    return TopicPut(
        store.catalog.put_topic(command.name, settings, now_ms=envelope.now_ms, namespace=command.namespace), True
    )


def _merged(old: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """`old` with what `change` sets. None takes a setting away; a map, such as the target, is merged by its fields."""
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
