"""Topics: by name within a namespace, and by a number that apply gives once.

Units carry the number (4 bytes) instead of the name, for as long as their hour exists. If a number came back under
another name, old messages would go to a new topic. There are thousands of topics, not millions, so all of them are kept
decoded in memory. Apply finds them in a dict, and pages of them in a list of names in order.

A topic takes 250 bytes in memory, so 100,000 take 25 MB of each node. A name is kept once for all look-ups, and topics
without settings share one empty dict.
"""

import struct
import sys
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NewType

import msgspec

from storage.format.array import U32
from storage.format.position import EVER_MS
from storage.lmdb.table import Table

_NUMBER: Final = struct.Struct(">I")
_NEXT_NUMBER: Final = b"next_topic"
_ENCODER: Final = msgspec.msgpack.Encoder(order="deterministic")

DEFAULT_NAMESPACE: Final = "default"

Subscription = NewType("Subscription", int)
"""A subscription of a topic, in one number: its own, 16 bits, above the 32 bits of the topic's.

It is the key of ready, handed-over, pushed and retried units. Only subscription 0 exists, which all consumers of a
topic share. The topic's number is its key.
"""

_TOPIC_BITS: Final = 32


def subscription_of(topic: int, number: int = 0) -> Subscription:
    """The number that names subscription `number` of a topic."""
    return Subscription(number << _TOPIC_BITS | topic)


def subscriptions_of(topics: U32) -> U32:
    """Subscription 0 of each topic, shape [n]."""
    return topics


def topic_of(subscription: Subscription) -> int:
    """The number of the topic that this subscription reads."""
    return subscription & (1 << _TOPIC_BITS) - 1


def number_of(subscription: Subscription) -> int:
    """The number of the subscription among those of its topic: 0, as long as only number 0 exists."""
    return subscription >> _TOPIC_BITS


PAUSED_SINCE: Final = "paused_since_ms"
RESUMED_AT: Final = "resumed_ms"
"""Settings that apply sets by itself, from the level of `pause-times` on: when the newest pause of the topic began, and
when it ended. While the topic is paused it has no RESUMED_AT."""


class Pause(NamedTuple):
    """The newest pause of a topic: since_ms <= t < until_ms. Its begin is 0 if it is not known. If it lasts, its end is
    EVER_MS. A topic that was never paused has NO_PAUSE."""

    since_ms: int
    until_ms: int


NO_PAUSE: Final = Pause(0, 0)


def pause_of(settings: Mapping[str, Any]) -> Pause:
    """The newest pause of a topic that has these settings."""
    if settings.get("paused", False):
        return Pause(settings.get(PAUSED_SINCE, 0), EVER_MS)
    return Pause(settings.get(PAUSED_SINCE, 0), settings.get(RESUMED_AT, 0))


def paused_settings(pause: Pause) -> dict[str, Any]:
    """The settings by which `pause_of` finds this pause."""
    return {"paused": pause.until_ms == EVER_MS, PAUSED_SINCE: pause.since_ms, RESUMED_AT: pause.until_ms}


class Topic(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A topic. `settings` are the fields of the API's topic object that were set. `revision` counts from 1."""

    number: int
    namespace: str
    name: str
    settings: dict[str, Any]
    revision: int
    created_ms: int


_DECODER: Final = msgspec.msgpack.Decoder(Topic)
_NO_SETTINGS: Final[dict[str, Any]] = {}


class _Namespace:
    """The topics of one namespace."""

    __slots__ = ("by_name", "names")

    def __init__(self) -> None:
        self.by_name: dict[str, Topic] = {}
        self.names: list[str] = []  # the keys of `by_name`, rising


_EMPTY: Final = _Namespace()


class Topics:
    """All topics, in memory, and their table. Numbers start at 1. 0 is no topic."""

    def __init__(self, table: Table, meta: Table) -> None:
        self._table = table
        self._meta = meta
        self._by_number: dict[int, Topic] = {}
        self._namespaces: defaultdict[str, _Namespace] = defaultdict(_Namespace)
        self._set: dict[int, Topic] = {}  # those with settings
        self._created_ms = 0  # of the topic that was remembered last

    def __len__(self) -> int:
        return len(self._by_number)

    def load(self) -> None:
        """Read all topics. Raises Corrupt if a row's checksum does not match."""
        for _, value in self._table.rows():
            topic = self._remember(value)
            self._namespaces[topic.namespace].names.append(topic.name)
        for each in self._namespaces.values():
            each.names.sort()

    def find(self, name: str, namespace: str) -> Topic | None:
        """The topic of this name, or None."""
        return self._of(namespace).by_name.get(name)

    def by_number(self, number: int) -> Topic | None:
        """The topic of this number, or None if there is none or it was dropped."""
        return self._by_number.get(number)

    def all(self) -> list[Topic]:
        """All topics in the order of their numbers."""
        return [self._by_number[number] for number in sorted(self._by_number)]

    def page(self, after: str, most: int, namespace: str) -> list[Topic]:
        """The first topics of the namespace, in order of names, whose names are greater than `after`. At most
        `most`."""
        within = self._of(namespace)
        start = bisect_right(within.names, after)
        return [within.by_name[name] for name in within.names[start : start + most]]

    def with_settings(self) -> list[Topic]:
        """The topics that have a setting of their own, in no order."""
        return list(self._set.values())

    def put(self, name: str, settings: dict[str, Any], now_ms: int, namespace: str) -> Topic:
        """Create the topic, or replace its settings. The revision grows only when the settings change."""
        old = self.find(name, namespace)
        if old is not None and old.settings == settings:
            return old
        if old is None:
            topic = Topic(
                number=self._next_number(),
                namespace=namespace,
                name=name,
                settings=settings,
                revision=1,
                created_ms=now_ms,
            )
        else:
            topic = msgspec.structs.replace(old, settings=settings, revision=old.revision + 1)
        row = _ENCODER.encode(topic)
        self._table.put(_NUMBER.pack(topic.number), row)
        put = self._remember(row)
        if old is None:
            insort(self._namespaces[namespace].names, put.name)
        return put

    def drop(self, number: int) -> None:
        """Remove a topic. Its number is not given again."""
        topic = self._by_number.pop(number)
        within = self._namespaces[topic.namespace]
        del within.by_name[topic.name], within.names[bisect_left(within.names, topic.name)]
        self._set.pop(number, None)
        self._table.drop(_NUMBER.pack(number))

    def _next_number(self) -> int:
        kept = self._meta.get(_NEXT_NUMBER)
        number = 1 if kept is None else _NUMBER.unpack(kept)[0]
        assert number not in self._by_number, f"topic number {number} was given before"
        self._meta.put(_NEXT_NUMBER, _NUMBER.pack(number + 1))
        return int(number)

    def _of(self, namespace: str) -> _Namespace:
        return self._namespaces.get(namespace, _EMPTY)

    def _remember(self, row: bytes) -> Topic:
        """Decode a row and add its topic to the look-ups by name and by number. The caller updates the list of
        names."""
        topic = _DECODER.decode(row)
        if topic.created_ms != self._created_ms:  # one entry may make many, which share its time
            self._created_ms = topic.created_ms
        within = self._namespaces[topic.namespace]
        old = within.by_name.get(topic.name)
        topic = msgspec.structs.replace(
            topic,
            namespace=sys.intern(topic.namespace),
            name=topic.name if old is None else old.name,
            settings=topic.settings or _NO_SETTINGS,
            created_ms=self._created_ms,
        )
        self._by_number[topic.number] = within.by_name[topic.name] = topic
        if topic.settings:
            self._set[topic.number] = topic
        else:
            self._set.pop(topic.number, None)
        return topic
