"""Which entry the journal is kept from: what lags is waited for up to a bound, what takes a snapshot over beyond it."""

from typing import Any, cast

import pytest

from node.upkeep.journal_trim import MB, Trimming, segment_bytes
from replication.journal.journal import SEGMENT_BYTES, Journal


class Kept:
    """A journal in which each entry is a MiB, the newest is 1000."""

    def first_within(self, limit_bytes: int) -> int:
        return 1000 - limit_bytes // MB


@pytest.mark.parametrize(
    ("low_water", "hold", "expected"),
    [
        (1000, None, 1000),  # everybody has everything
        (950, None, 950),  # one lags within the bound
        (200, None, 900),  # one lags beyond it, or is down
        (0, None, 900),  # nothing is known of one
        (1000, 850, 850),  # one takes a snapshot over that ends before the bound
        (0, 850, 850),
        (1000, 1000, 1000),  # and has caught up
        (950, 990, 950),
    ],
)
def test_what_is_needed(low_water: int, hold: int | None, expected: int) -> None:
    """The least that a peer lacks, but no more than is kept for those that lag; or what a snapshot needs."""
    trimming = Trimming(cast(Journal, cast(Any, Kept())), 100, low_water=lambda: low_water, hold=lambda: hold)
    assert trimming.needed_from() == expected


@pytest.mark.parametrize(
    ("keep_mb", "expected"),
    [(0, MB // 16), (1, MB // 8), (16, 2 * MB), (1024, SEGMENT_BYTES), (1 << 20, SEGMENT_BYTES)],
)
def test_segments_are_a_fraction_of_what_is_kept(keep_mb: int, expected: int) -> None:
    """Segments go whole: with a small bound they are small, and never larger than they were."""
    assert segment_bytes(keep_mb) == expected
