"""The table of a group's metrics: name, kind, sentence. Values are read when Prometheus asks, so the rest of the node
only counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from node.port.group_port import MetricFamilies, MetricFamily, Sample

COUNTER: Final = "counter"
GAUGE: Final = "gauge"

TABLE: Final = (
    ("hourwheel_scheduled", COUNTER, "Messages this node proposed as leader"),
    ("hourwheel_handed_over", COUNTER, "Hand-overs this node made as leader, repeats included"),
    ("hourwheel_acked", COUNTER, "Acks this node answered with `acked`"),
    ("hourwheel_entries", COUNTER, "Entries this node proposed as leader"),
    ("hourwheel_leads", GAUGE, "1 while this node is the established leader"),
    ("hourwheel_untrusted_seconds", COUNTER, "Time in which this node led and was not sure to"),
    ("hourwheel_silence_seconds", GAUGE, "The silence this node owes a leader it hears; more than configured if late"),
    ("hourwheel_term", GAUGE, "The newest term this node knows of"),
    ("hourwheel_commit_index", GAUGE, "The last entry known to be committed"),
    ("hourwheel_applied_index", GAUGE, "The last entry applied"),
    ("hourwheel_waiting", GAUGE, "Messages that wait to be proposed"),
    ("hourwheel_topics", GAUGE, "Topics there are"),
    ("hourwheel_operations_running", GAUGE, "Operations on many messages that have begun and not ended"),
    ("hourwheel_operations_paused", GAUGE, "Those of them that are paused, and hold their messages"),
    ("hourwheel_operations_held", GAUGE, "Messages that paused operations hold, as the leader counted them last"),
    (
        "hourwheel_idempotency_oldest_seconds",
        GAUGE,
        "When the oldest answer kept under an Idempotency-Key was given, seconds since the epoch; NaN if none is",
    ),
    ("hourwheel_idempotency_bytes", GAUGE, "What answers kept under an Idempotency-Key take"),
    ("hourwheel_ready", GAUGE, "Units dispatched and not yet handed over, as far as they are in memory"),
    ("hourwheel_pledged", GAUGE, "Units of strict topics that are leased, or about to be, and not handed over yet"),
    ("hourwheel_released", COUNTER, "Leases of strict topics that this node took back as leader: not handed over"),
    ("hourwheel_near_hours", GAUGE, "Hours that the wheel has mapped"),
    ("hourwheel_used_hours", GAUGE, "Hours in memory: near, used of late, or with settle records that are not written"),
    ("hourwheel_heads_bytes", GAUGE, "Memory for the heads of seconds"),
    ("hourwheel_staged_bytes", GAUGE, "Bytes of far hours that only the journal and memory hold"),
    ("hourwheel_free_bytes", GAUGE, "Free space of the data directory's file system"),
    (
        "hourwheel_oldest_hour_seconds",
        GAUGE,
        "When the oldest hour kept began, seconds since the epoch; NaN if none is",
    ),
    ("hourwheel_kept_for_open_bytes", GAUGE, "Bytes of hours past retention that hold a message still open"),
    ("hourwheel_clock_error_seconds", GAUGE, "How far the wall clock is ahead of the node clock"),
    ("hourwheel_clock_ahead_seconds", GAUGE, "How far this node's clock is ahead of the median; NaN if nobody knows"),
    ("hourwheel_agreed_index", GAUGE, "The last entry after which a majority was heard to have the same state"),
    ("hourwheel_split", GAUGE, "1 while nodes differ and no majority agrees, as the leader finds it"),
    ("hourwheel_tick_seconds", GAUGE, "The replicated dispatch state's tick, seconds since the epoch"),
    ("hourwheel_checkpoint_index", GAUGE, "The entry that the last durable checkpoint covers"),
    ("hourwheel_journal_bytes", GAUGE, "What the journal holds: since the last checkpoint, and for nodes that lag"),
    ("hourwheel_snapshots_sending", GAUGE, "Nodes that take over a snapshot of this leader or catch up behind it"),
    ("hourwheel_snapshot_sent_bytes", COUNTER, "Bytes of snapshots this node sent as leader"),
    ("hourwheel_snapshots_given_up", COUNTER, "Snapshots this node began to send and gave up"),
    ("hourwheel_snapshot_lacking_bytes", GAUGE, "Of the snapshot this node is taking over, what is not here yet"),
    ("hourwheel_snapshots_refused", COUNTER, "Snapshots this node fetched and did not take over"),
    ("hourwheel_exports", COUNTER, "Exports of this node that were done"),
    ("hourwheel_exports_failed", COUNTER, "Exports of this node that could not be written"),
    ("hourwheel_exported_bytes", COUNTER, "Bytes this node exported"),
    ("hourwheel_export_age_seconds", GAUGE, "How long ago the last export was done; 0 if none is configured"),
)


class Metrics(Collector):
    """The metrics of one group: the rows of TABLE, whose values `read` returns by name, and the metrics of `others`."""

    def __init__(self, read: Callable[[], dict[str, float]], *others: Collector) -> None:
        self._read = read
        self._registry = CollectorRegistry()
        self._registry.register(self)
        for other in others:
            self._registry.register(other)

    def describe(self) -> list[Metric]:
        """Return nothing. The registry asks for this at registration, before there are values."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the table's values, for the registry."""
        values = self._read()
        assert set(values) == {name for name, _, _ in TABLE}, set(values) ^ {name for name, _, _ in TABLE}
        for name, kind, sentence in TABLE:
            family = CounterMetricFamily if kind == COUNTER else GaugeMetricFamily
            yield family(name, sentence, value=values[name])

    def families(self) -> MetricFamilies:
        """Return all metrics as they are now, as plain structs. In this form they go from a group to a front."""
        return MetricFamilies(tuple(map(_family, self._registry.collect())))


def _family(metric: Metric) -> MetricFamily:
    samples = tuple(Sample(each.name, dict(each.labels), each.value) for each in metric.samples)
    return MetricFamily(metric.name, metric.type, metric.documentation, samples)
