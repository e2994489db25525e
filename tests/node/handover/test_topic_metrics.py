"""Counts per topic: few labels whatever there are topics, and rates that stay right."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

import node.handover.topic_metrics
from api.port.budget import Budget
from api.port.port import ANONYMOUS, Delivery, MessageIn, PullIn, TopicChange
from node.cluster.metrics import TABLE, Metrics
from node.front.metrics_page import MetricsPage
from node.handover.topic_metrics import LABELLED_MAX, OTHERS, SWAPS_MAX, TOUCHED_MAX, TopicMetrics
from node.node import Node
from tests.node.single_node import run_node

NAMES = {1: "a", 2: "b", 3: "c"}


def _empty() -> TopicMetrics:
    return TopicMetrics(NAMES.get, lambda topics: ([0] * len(topics), 0))


def _samples(metrics: TopicMetrics) -> dict[tuple[str, str], float]:
    """(name, topic) -> value of one scrape."""
    families: list[Metric] = list(metrics.collect())
    return {(each.name, each.labels["topic"]): each.value for family in families for each in family.samples}


def test_what_is_shown() -> None:
    """Every count under its topic's name; what is ready is asked for at the scrape, also of topics not counted yet."""
    metrics = TopicMetrics(NAMES.get, lambda topics: ([3 if name == "a" else 0 for name in topics], 8))
    row = metrics.of("a")
    assert metrics.of("a") is row
    row.scheduled, row.handed_over, row.acked, row.failed, row.dead = 10, 8, 5, 2, 1
    for topics in ([1], [], [2, 1, 2, 1], [2]):
        metrics.add("dead", np.array(topics, np.uint32))
    row.add_hand_overs(2, 1, 500)
    late_ms = np.array([1, 100, 900, 7], np.int64)
    metrics.add_hand_overs(np.array([1, 2, 1, 2], np.uint32), np.array([False, True, True, False]), late_ms)
    metrics.of("b").acked += 4
    assert ("hourwheel_topic_acked_total", OTHERS) not in _samples(metrics)
    found = _samples(metrics)
    shown = {name.removeprefix("hourwheel_topic_"): value for (name, topic), value in found.items() if topic == "a"}
    assert shown == {
        "scheduled_total": 10,
        "handed_over_total": 12,
        "acked_total": 5,
        "failed_total": 2,
        "dead_total": 4,
        "lateness_seconds_count": 2,
        "lateness_seconds_sum": 1.4,
        "ready": 3,
    }
    assert found["hourwheel_topic_acked_total", "b"] == 4
    assert found["hourwheel_topic_dead_total", "b"] == 3
    assert found["hourwheel_topic_ready", "b"] == 0
    assert found["hourwheel_topic_lateness_seconds_sum", "b"] == 0.1
    assert found["hourwheel_topic_handed_over_total", "b"] == 2
    assert found["hourwheel_topic_ready", OTHERS] == 5
    metrics.add("failed", np.array([9], np.uint32))  # a topic that is gone
    assert _samples(metrics)["hourwheel_topic_failed_total", OTHERS] == 1
    metrics.forget("a")
    metrics.forget("never")
    assert {topic for _, topic in _samples(metrics)} == {"b", OTHERS}


def test_the_page_can_be_read() -> None:
    """Beside the table of the node, in the text format, names as Prometheus wants them."""
    metrics = _empty()
    metrics.of("a.b-c").scheduled += 1
    families = Metrics(lambda: {name: 0.0 for name, _, _ in TABLE}, metrics).families().families
    text = MetricsPage(Budget()).render(families).decode()
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"hourwheel_topic_scheduled", "hourwheel_topic_lateness_seconds", "hourwheel_topic_ready"} <= names
    assert 'hourwheel_topic_scheduled_total{topic="a.b-c"} 1.0' in text


def test_labels_do_not_explode() -> None:
    """Ten thousand topics are LABELLED_MAX and one label; the busiest get a name within some scrapes, and topics that
    are equally busy do not take turns."""
    metrics = _empty()
    for number in range(10_000):
        metrics.of(f"t{number}").scheduled += 1
    first = {topic for _, topic in _samples(metrics)}
    assert len(first) == LABELLED_MAX + 1
    for _ in range(3):
        for number in range(10_000):
            metrics.of(f"t{number}").scheduled += 1
        assert {topic for _, topic in _samples(metrics)} == first
    busy = {f"t{number}" for number in range(9_900, 9_900 + 3 * SWAPS_MAX)} - first
    for _ in range(4):
        for topic in busy:
            metrics.of(topic).acked += 1_000
        before, first = first, {topic for _, topic in _samples(metrics)}
        assert len(first - before) <= SWAPS_MAX
    assert busy <= first


def test_b5_topics_that_are_touched_are_looked_at_a_few_at_a_time() -> None:
    """100,000 that were made between two scrapes held the loop for 0.3 s at the second."""
    metrics = _empty()
    for number in range(10 * TOUCHED_MAX + 7):
        metrics.of(f"t{number}").scheduled += 1
        assert len(metrics._touched) <= TOUCHED_MAX
        assert len(metrics._busiest) <= LABELLED_MAX + SWAPS_MAX
    shown = _samples(metrics)
    names = [name for name in shown if name[0] == "hourwheel_topic_scheduled_total"]
    assert sum(shown[name] for name in names) == 10 * TOUCHED_MAX + 7


ADDS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50)), max_size=8)


def test_what_a_deleted_topic_did_is_not_lost() -> None:
    """No sum held what a topic had done between the last look and its deletion: 1,000 of 1,001 messages."""
    metrics = _empty()
    for number in range(LABELLED_MAX):
        metrics.of(f"t{number}").scheduled += 10
    _samples(metrics)
    metrics.of("gone").scheduled += 1_000
    metrics.forget("gone")
    metrics.of("stays").scheduled += 1
    assert _samples(metrics)["hourwheel_topic_scheduled_total", OTHERS] == 1_001


@given(st.lists(ADDS, min_size=1, max_size=12), st.integers(1, 11))
def test_counts_never_go_down_and_nothing_is_lost(scrapes: list[list[tuple[int, int]]], touched_max: int) -> None:
    """With room for two names and ten topics: a label that stays never goes down, nor do the others, and from one
    scrape to the next all labels that stay went up by what their topics did."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node.handover.topic_metrics, "LABELLED_MAX", 2)
        patch.setattr(node.handover.topic_metrics, "TOUCHED_MAX", touched_max)
        metrics = _empty()
        before: dict[str, float] = {}
        known: list[str] = []
        for adds in scrapes:
            done: dict[str, int] = {}
            first_seen = len(known)
            for number, count in adds:
                metrics.of(f"t{number}").handed_over += count
                known += [f"t{number}"] * (f"t{number}" not in known)
                done[f"t{number}"] = done.get(f"t{number}", 0) + count
            found = _samples(metrics)
            now = {
                topic: value for (name, topic), value in found.items() if name == "hourwheel_topic_handed_over_total"
            }
            assert len(now.keys() - {OTHERS}) <= 2
            for topic in now.keys() & before.keys() - {OTHERS}:
                assert now[topic] - before[topic] == done.get(topic, 0)
            if OTHERS in now:
                named = before.keys() | set(known[first_seen:2])
                rest = sum(count for topic, count in done.items() if topic not in named)
                gained = now[OTHERS] - before.get(OTHERS, 0)
                assert gained == rest
            before = now


def test_a_node_counts_by_topic(tmp_path: Path) -> None:
    """Scheduled, handed over, acked, failed and dead, as they happened; what is moved is not scheduled again, nor is a
    key that is replayed; a dead-letter copy is a message of its topic; nobody but the leader has anything ready."""

    async def play(node: Node) -> None:
        change = TopicChange(retry={"max_attempts": 2}, dead_letter="b")
        await node.front.put_topic("a", change, create=True, if_match=None, principal=ANONYMOUS)
        keyed = MessageIn("a", b"1", delay_ms=60_000, key="k", fingerprint=bytes(16))
        for _ in range(2):
            scheduled = await node.front.schedule([keyed], ANONYMOUS)
        await node.front.reschedule(
            scheduled.ids[0].decode(), due_ms=None, delay_ms=90_000, if_match=None, principal=ANONYMOUS
        )
        await node.front.schedule([MessageIn("a", b"2"), MessageIn("c", b"3"), MessageIn("a", b"4")], ANONYMOUS)
        for _ in range(2):
            pulled: list[Delivery] = []
            while len(pulled) < 2:
                pulled += await node.front.pull(PullIn("a", 2, 5_000), ANONYMOUS)
            receipts = [each.receipt for each in pulled]
            await node.front.nack("a", receipts, delay_ms=0, principal=ANONYMOUS)
        (copy, *_) = await node.front.pull(PullIn("b", 1, 5_000), ANONYMOUS)
        await node.front.ack("b", [copy.receipt], ANONYMOUS)
        found = {
            (each.name.removeprefix("hourwheel_topic_"), each.labels["topic"]): each.value
            for family in text_string_to_metric_families((await node.front.metrics()).decode())
            for each in family.samples
            if each.name.startswith("hourwheel_topic_") and each.value and "lateness" not in each.name
        }
        assert found == {
            ("scheduled_total", "a"): 3,
            ("handed_over_total", "a"): 4,
            ("failed_total", "a"): 4,
            ("dead_total", "a"): 2,
            ("scheduled_total", "b"): 2,
            ("handed_over_total", "b"): 1,
            ("acked_total", "b"): 1,
            ("ready", "b"): 1,
            ("scheduled_total", "c"): 1,
            ("ready", "c"): 1,
        }
        node.group.leading.stepped_down()
        assert 'hourwheel_topic_ready{topic="c"} 0.0' in (await node.front.metrics()).decode()

    run_node(tmp_path / "n1", play)
