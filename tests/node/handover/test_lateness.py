"""Lateness: every hand-over is in one bucket, and quantiles speak of the last ones."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from node.handover.lateness import RECENT, Lateness


@given(st.lists(st.lists(st.integers(0, 10_000_000), min_size=1, max_size=50), max_size=10))
def test_the_histogram_counts_every_value_once(batches: list[list[int]]) -> None:
    """Count and sum are those of all values; a bucket holds what is at most its bound."""
    lateness = Lateness()
    for batch in batches:
        lateness.observe(np.array(batch, np.int64))
    values = [value for batch in batches for value in batch]
    registry = CollectorRegistry()
    registry.register(lateness)
    text = generate_latest(registry).decode()
    assert f"hourwheel_lateness_seconds_count {float(len(values))}" in text
    at_most_8 = sum(value <= 8 for value in values)
    assert f'hourwheel_lateness_seconds_bucket{{le="0.008"}} {float(at_most_8)}' in text


def test_quantiles_are_of_the_last_hand_overs() -> None:
    """Old values leave the ring; nothing yet is nothing, not zero."""
    lateness = Lateness()
    assert lateness.quantiles() == {}
    lateness.observe(np.full(RECENT, 1_000, np.int64))
    lateness.observe(np.arange(RECENT, dtype=np.int64) % 100)
    quantiles = lateness.quantiles()
    assert quantiles["max"] == 99
    assert 49 <= quantiles["p50"] <= 50


def test_a_batch_larger_than_the_ring() -> None:
    """Only its last values are kept, all of it is counted."""
    lateness = Lateness()
    lateness.observe(np.concatenate((np.full(RECENT, 7, np.int64), np.full(RECENT, 3, np.int64))))
    assert lateness.quantiles() == {"p50": 3, "p99": 3, "p99_9": 3, "max": 3}
