"""What old hours weigh that only open messages hold."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from storage.catalog.hour_lengths import HourLengths
from storage.checkpoint.kept_hours import KeptHours
from tests.storage.catalog.test_catalog import record

HOUR_MS = 3_600_000

LENGTHS = st.builds(
    HourLengths,
    log_len=st.integers(0, 1 << 40),
    index_len=st.integers(0, 1 << 40),
    settle_len=st.integers(0, 1 << 40),
    units=st.just(9),
    unsettled=st.integers(0, 2),
    forwarded=st.just(0),
    moved=st.just(0),
    generation=st.just(0),
)


@given(hours=st.dictionaries(st.integers(0, 20), LENGTHS), before_ms=st.integers(-HOUR_MS, 22 * HOUR_MS))
def test_open_bytes_are_those_of_past_hours_with_an_open_unit(hours: dict[int, HourLengths], before_ms: int) -> None:
    """Against a plain sum over all hours, at any time."""
    kept = KeptHours(replace(record(1), hours=hours))
    assert kept.oldest == min(hours, default=None)
    assert kept.open_bytes(before_ms) == sum(
        each.log_len + each.index_len + each.settle_len
        for hour, each in hours.items()
        if each.unsettled and (hour + 1) * HOUR_MS <= before_ms
    )


def test_before_the_first_checkpoint_nothing_is_kept() -> None:
    """No record: no oldest hour, no bytes."""
    kept = KeptHours(None)
    assert kept.oldest is None
    assert kept.open_bytes(1 << 50) == 0
