"""Metrics per topic: messages scheduled, handed over, acked, failed and given up, their lateness, and ready units.

All topics are counted. Code that did something with n messages of a topic adds n to the topic's counts at once. A
scrape shows the busiest LABELLED_MAX topics by name, and the sum of the others under one label. So topics that are made
without end (by mistake, or in a client's loop) do not fill the store of the metrics.

Rates stay right whichever topics are named. A topic that becomes named shows its whole count from then on. The sum of
the others has the counts that topics got while they were not named, and never goes down. A topic takes the place of a
named one only when it is twice as busy, and at most SWAPS_MAX do so at a scrape.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from node.handover.term import Leadership
from storage.catalog.catalog import Catalog
from storage.format.array import I64, U32
from storage.tables.topic import subscription_of

LABELLED_MAX: Final = 100
"""So many topics are shown under their own name. Each has 8 samples, and a sample holds the loop for 7 us at every
scrape."""
OTHERS: Final = "(other)"
"""The label under which all topics without a place of their own are summed up. No topic can have this name."""
SWAPS_MAX: Final = 10
TOUCHED_MAX: Final = 256
"""After so many topics got new counts, these are summed up, in 4 us each. Without this bound, 100,000 topics that were
made between two scrapes held the loop for 0.3 s at the second scrape."""
FORGET: Final = 0.8
"""At each scrape a topic's `business` (how busy it has been lately) shrinks to this part."""

TABLE: Final = (
    ("hourwheel_topic_scheduled", "scheduled", "Messages of the topic that this node took as leader, replays apart"),
    ("hourwheel_topic_handed_over", "handed_over", "Hand-overs of the topic that this node made, repeats included"),
    ("hourwheel_topic_acked", "acked", "Messages of the topic that ended delivered, by ack or push"),
    ("hourwheel_topic_failed", "failed", "Hand-overs of the topic that failed: pushes and nacks"),
    ("hourwheel_topic_dead", "dead", "Messages of the topic that were given up"),
)
READY: Final = "hourwheel_topic_ready"
LATENESS: Final = "hourwheel_topic_lateness_seconds"

_COLUMNS: Final = ("scheduled", "handed_over", "acked", "failed", "dead", "first", "late_ms")


class TopicCounts:
    """The counts of one topic since the node started. `first` counts hand-overs that were the first of their message,
    and `late_ms` is their lateness added up."""

    __slots__ = (*_COLUMNS, "business", "scrape")

    def __init__(self) -> None:
        self.scheduled = self.handed_over = self.acked = self.failed = self.dead = 0
        self.first = self.late_ms = 0
        self.business, self.scrape = 0.0, 0  # `business` is as of this scrape

    def add_hand_overs(self, count: int, first: int, late_ms: int) -> None:
        """Add `count` hand-overs. `first` of them were the first of their messages, which were `late_ms` late in
        total."""
        self.handed_over += count
        self.first += first
        self.late_ms += late_ms

    def values(self) -> tuple[int, ...]:
        """The counts in the order of the columns."""
        return (self.scheduled, self.handed_over, self.acked, self.failed, self.dead, self.first, self.late_ms)


class TopicMetrics(Collector):
    """The counts of one node. `name_of` returns the name of a topic by its number, or None if it was deleted. `ready`
    takes topic names. It returns their counts of ready units, in the same order, and the count of all topics."""

    def __init__(
        self, name_of: Callable[[int], str | None], ready: Callable[[Sequence[str]], tuple[Sequence[int], int]]
    ) -> None:
        self._name_of = name_of
        self._ready = ready
        self._topics: dict[str, TopicCounts] = {}
        #: Topics with new counts since the last look, and their counts at that look. The work of a look follows these,
        #: not all topics.
        self._touched: dict[str, tuple[TopicCounts, tuple[int, ...]]] = {}
        self._busiest: dict[str, TopicCounts] = {}  # topics without a name that had new counts since the last scrape
        self._scrapes = 0
        self._labelled: dict[str, TopicCounts] = {}
        self._others = [0] * len(_COLUMNS)

    def of(self, topic: str) -> TopicCounts:
        """The counts of a topic. Add to the returned object before the next await. A count that is added after the next
        scrape may be missing from the sum of the topics without a name."""
        if len(self._touched) >= TOUCHED_MAX:
            self._look()
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicCounts()
            if len(self._labelled) < LABELLED_MAX:
                self._labelled[topic] = found
        if topic not in self._touched:
            self._touched[topic] = found, found.values()
        return found

    def add(self, column: str, topics: U32) -> None:
        """Add 1 to the column `column` for each row of `topics`, which are numbers of topics."""
        if not len(topics):
            return
        if len(topics) == 1 or bool((topics == topics[0]).all()):
            self._add(column, int(topics[0]), len(topics))
            return
        numbers, counts = np.unique(topics, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self._add(column, number, count)

    def add_hand_overs(self, topics: U32, first: npt.NDArray[np.bool_], late_ms: I64) -> None:
        """Add hand-overs, shape [n] each: the number of the topic, True if it is the message's first hand-over, and its
        lateness."""
        self.add("handed_over", topics)
        numbers, at = np.unique(topics[first], return_inverse=True)
        late = np.bincount(at, late_ms[first], len(numbers)).astype(np.int64)
        for number, count, ms in zip(numbers.tolist(), np.bincount(at).tolist(), late.tolist(), strict=True):
            self._add("first", number, count)
            self._add("late_ms", number, ms)

    def _add(self, column: str, number: int, count: int) -> None:
        name = self._name_of(number)
        if name is None:  # the topic was deleted meanwhile
            self._others[_COLUMNS.index(column)] += count
        else:
            row = self.of(name)
            setattr(row, column, getattr(row, column) + count)

    def forget(self, topic: str) -> None:
        """Remove a topic that was deleted. The counts that it got while it was not named stay in the sum of the
        others."""
        if topic in self._touched:
            self._look()
        for rows in (self._topics, self._busiest, self._labelled):
            rows.pop(topic, None)

    def collect(self) -> Iterator[Metric]:
        """The metrics, for the registry."""
        self._choose()
        rows = [(name, each.values()) for name, each in self._labelled.items()]
        if len(self._labelled) < len(self._topics) or any(self._others):
            rows.append((OTHERS, tuple(self._others)))
        for name, column, sentence in TABLE:
            at = _COLUMNS.index(column)
            family = CounterMetricFamily(name, sentence, labels=["topic"])
            for label, values in rows:
                family.add_metric([label], values[at])
            yield family
        lateness = SummaryMetricFamily(LATENESS, "Asked due time to the first hand-over", labels=["topic"])
        for label, values in rows:
            lateness.add_metric([label], count_value=values[-2], sum_value=values[-1] / 1000)
        yield lateness
        yield self._ready_family()

    def _ready_family(self) -> Metric:
        family = GaugeMetricFamily(READY, "Units of the topic that wait in its ready window", labels=["topic"])
        names = list(self._labelled)
        counts, total = self._ready(names)
        for name, count in zip(names, counts, strict=True):
            family.add_metric([name], count)
        if total > sum(counts):
            family.add_metric([OTHERS], total - sum(counts))
        return family

    def _look(self) -> None:
        """Add the counts that topics got since the last look to the `business` of these topics. Counts of topics that
        are not named at a scrape are also added to the sum of the others."""
        scrape = self._scrapes + 1  # the next
        for name, (each, before) in self._touched.items():
            done = [new - old for new, old in zip(each.values(), before, strict=True)]
            each.business = _business(each, scrape) + FORGET * sum(done[: len(TABLE)])
            each.scrape = scrape
            if name not in self._labelled:
                self._others = [total + more for total, more in zip(self._others, done, strict=True)]
                self._busiest[name] = each
        self._touched.clear()
        if len(self._busiest) > LABELLED_MAX + SWAPS_MAX:
            self._busiest = dict(self._first(LABELLED_MAX + SWAPS_MAX))

    def _first(self, most: int) -> list[tuple[str, TopicCounts]]:
        return heapq.nlargest(most, self._busiest.items(), key=lambda row: row[1].business)

    def _choose(self) -> None:
        """Choose the topics that this scrape shows by name."""
        self._look()
        self._scrapes += 1
        room = LABELLED_MAX - len(self._labelled)
        busiest = self._first(room + SWAPS_MAX)
        self._labelled.update(busiest[:room])
        self._swap(busiest[room:])
        self._busiest.clear()

    def _swap(self, busiest: list[tuple[str, TopicCounts]]) -> None:
        idlest = sorted(self._labelled.items(), key=lambda row: _business(row[1], self._scrapes))
        for (name, each), (other, idle) in zip(busiest, idlest, strict=False):
            if each.business <= 2 * _business(idle, self._scrapes):
                break
            del self._labelled[other]
            self._labelled[name] = each


def _business(topic: TopicCounts, scrape: int) -> float:
    """How busy a topic is: its `business`, multiplied by FORGET once for each scrape since `business` was last
    changed."""
    return topic.business * float(FORGET ** (scrape - topic.scrape))


def topic_name(catalog: Catalog, number: int) -> str | None:
    """The topic's name, None if it was deleted."""
    topic = catalog.topic_by_number(number)
    return topic.name if topic is not None else None


def ready_of(catalog: Catalog, leadership: Leadership, topics: Sequence[str]) -> tuple[Sequence[int], int]:
    """Count the ready units of these topics, in the same order, and of all topics. All are 0 on a node that does not
    lead."""
    if leadership.term is None:
        return [0] * len(topics), 0
    windows = leadership.term.handing_over
    counts = [
        0 if topic is None else windows.ready_of(subscription_of(topic.number)) for topic in map(catalog.topic, topics)
    ]
    return counts, windows.ready_count
