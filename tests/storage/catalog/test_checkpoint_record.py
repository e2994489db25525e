"""The checkpoint record: golden bytes, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.catalog.checkpoint_record import CheckpointRecord
from storage.catalog.doubt import Doubt
from storage.catalog.hour_lengths import HourLengths
from storage.format.level import LEVELS
from storage.format.rows import Corrupt, FormatRefused

GOLDEN = Path(__file__).parents[1] / "golden"
U64 = st.integers(0, 2**64 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)

RECORD = CheckpointRecord(
    applied_index=0x0102030405,
    applied_term=6,
    tick=1_790_000_000,
    local_index=17,
    state_applied_index=0x0102030400,
    max_now_ms=1_790_000_000_125,
    rolling_hash=bytes(range(32)),
    hours={
        497_223: HourLengths(4096, 128, 64, 1, 0),
        497_222: HourLengths(1 << 40, 1 << 30, 1 << 20, 1 << 24, 99, forwarded=7, moved=8, generation=2),
    },
    catalog_count=12,
    catalog_hash=0xFEDCBA9876543210,
)

RISEN = replace(RECORD, level=2, hash_version=2)
DOUBTING = replace(RISEN, level=3, doubt=Doubt(1_790_000_001_125, (497_221 << 40 | 7, 497_222 << 40 | 64), 9))


@given(
    numbers=st.tuples(U64, U64, I64, I64, U64, I64, U64, U64),
    rolling_hash=st.binary(max_size=64),
    hours=st.dictionaries(st.integers(0, 2**24 - 1), st.tuples(*[U64] * 7, st.integers(0, 2**32 - 1)), max_size=5),
)
def test_a_record_is_read_as_it_was_written(
    numbers: tuple[int, ...], rolling_hash: bytes, hours: dict[int, tuple[int, ...]]
) -> None:
    """Any record comes back equal, and the same content gives the same bytes whatever the order of its hours."""
    index, term, tick, local_index, state_index, max_now_ms, count, total = numbers
    lengths = {hour: HourLengths._make(each) for hour, each in hours.items()}

    def make(hours: dict[int, HourLengths]) -> CheckpointRecord:
        return CheckpointRecord(
            applied_index=index,
            applied_term=term,
            tick=tick,
            local_index=local_index,
            state_applied_index=state_index,
            max_now_ms=max_now_ms,
            rolling_hash=rolling_hash,
            hours=hours,
            catalog_count=count,
            catalog_hash=total,
        )

    data = make(lengths).encode()
    assert CheckpointRecord.decode(data) == make(lengths)
    assert make(dict(reversed(lengths.items()))).encode() == data


def test_golden_bytes(request: pytest.FixtureRequest) -> None:
    """All versions stay what they are: these bytes are in the directories of others."""
    for record, name in ((RECORD, "checkpoint-1.hex"), (RISEN, "checkpoint-2.hex"), (DOUBTING, "checkpoint-3.hex")):
        path = GOLDEN / name
        if request.config.getoption("--golden"):
            path.write_text(record.encode().hex("\n", -16) + "\n")
        golden = bytes.fromhex(path.read_text())
        assert record.encode() == golden
        assert CheckpointRecord.decode(golden) == record


def test_unknown_versions_and_flags_are_refused_by_name() -> None:
    """A newer version or an unknown flag is FormatRefused naming what was found."""
    data = RECORD.encode()
    with pytest.raises(FormatRefused, match="version 4; this build supports 1 to 3"):
        CheckpointRecord.decode(b"\x04\x00" + data[2:])
    with pytest.raises(FormatRefused, match="flags 0x0001"):
        CheckpointRecord.decode(data[:2] + b"\x01\x00" + data[4:])
    for record in (replace(RISEN, level=LEVELS[1] + 1), replace(RISEN, level=65_535)):
        with pytest.raises(FormatRefused, match=f"level {record.level}; this build supports 1 to {LEVELS[1]}"):
            CheckpointRecord.decode(record.encode())
    tail = 74 + len(RISEN.rolling_hash)
    risen = bytearray(RISEN.encode())
    risen[tail + 4] = 72
    with pytest.raises(FormatRefused, match="bytes per hour 72"):
        CheckpointRecord.decode(bytes(risen))
    risen[tail] = 1
    risen[tail + 4] = 64
    with pytest.raises(Corrupt, match="level is 1, expected above 1"):
        CheckpointRecord.decode(bytes(risen))


def test_any_other_length_is_corrupt() -> None:
    """A record that was cut or has more bytes than it says is Corrupt at every length."""
    for data in (RECORD.encode(), RISEN.encode()):
        for length in range(len(data)):
            with pytest.raises(Corrupt, match="length"):
                CheckpointRecord.decode(data[:length])
        with pytest.raises(Corrupt, match="length"):
            CheckpointRecord.decode(data + b"\x00")
