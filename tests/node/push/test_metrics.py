"""What is counted of pushes."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from node.port.failure_code import REASONS
from node.push.metrics import PushMetrics, outcome_of


def test_outcomes_are_few() -> None:
    """Classes of HTTP and the reasons' words; a status that nobody defined makes no label of its own."""
    assert [outcome_of(code) for code in (101, 204, 302, 404, 599)] == ["1xx", "2xx", "3xx", "4xx", "5xx"]
    assert {outcome_of(code) for code in REASONS} == set(REASONS.values())
    assert outcome_of(999) == outcome_of(60_000) == "other"


@given(st.lists(st.tuples(st.sampled_from([200, 500, 1000]), st.floats(0, 1000)), max_size=30))
def test_every_attempt_is_in_one_outcome_and_one_bucket(attempts: list[tuple[int, float]]) -> None:
    """Sums of the counters and of the histogram are the number of attempts."""
    metrics = PushMetrics(lambda: 3, lambda: 4)
    for code, took_s in attempts:
        metrics.count(code, took_s)
    registry = CollectorRegistry()
    registry.register(metrics)
    lines = dict(line.rsplit(" ", 1) for line in generate_latest(registry).decode().splitlines() if line[0] != "#")
    assert sum(float(value) for name, value in lines.items() if name.startswith("hourwheel_push_attempts")) == len(
        attempts
    )
    assert float(lines["hourwheel_push_seconds_count"]) == len(attempts)
    assert (float(lines["hourwheel_push_on_wire"]), float(lines["hourwheel_push_staged"])) == (3, 4)
