"""GET /metrics: the metrics of the groups and of the process, as one page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from api.port.budget import Budget
from node.port.group_port import MetricFamily


class MetricsPage(Collector):
    """The metrics page of one process. `others` collect the metrics of the process itself."""

    def __init__(self, budget: Budget, *others: Collector) -> None:
        self._budget, self._others = budget, others
        self._of_groups: Iterable[MetricFamily] = ()

    def render(self, of_groups: Iterable[MetricFamily]) -> bytes:
        """Return the page in Prometheus text format. `of_groups` are the metrics that the groups gave for it."""
        self._of_groups = of_groups
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def describe(self) -> list[Metric]:
        """Return nothing: the families are known only when they are collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, for the registry."""
        for family in self._of_groups:
            metric = Metric(family.name, family.sentence, family.kind)
            for sample in family.samples:
                metric.add_sample(sample.name, sample.labels, sample.value)
            yield metric
        yield GaugeMetricFamily("hourwheel_http_connections", "Connections of clients", value=self._budget.connections)
        yield GaugeMetricFamily(
            "hourwheel_http_held_bytes",
            "What clients hold in memory: bodies under way, rows parsed, unread answers",
            value=self._budget.held_bytes,
        )
        yield CounterMetricFamily(
            "hourwheel_http_refused", "Requests and connections answered 429 `busy`", value=self._budget.refused
        )
        for other in self._others:
            yield from other.collect()
