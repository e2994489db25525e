"""The row checksum: what it finds."""

import numpy as np
import pytest

from storage.format.checksum import checksum_rows

ROWS = [("settle", 6, (5, 1)), ("unit", 8, (6, 1)), ("record header", 12, (1, 0))]


def _rows(width: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    """Rows of very different content: zeros, ones, small numbers, noise."""
    noise = np.random.default_rng(width).integers(0, 2**64, (3, width), np.uint64, endpoint=False)
    small = np.arange(width, dtype=np.uint64)[None]
    return np.concatenate((np.zeros((1, width), np.uint64), ~np.zeros((1, width), np.uint64), small, noise))


@pytest.mark.parametrize(("_", "width", "field"), ROWS)
def test_every_flipped_bit_is_found(_: str, width: int, field: tuple[int, int]) -> None:
    """Whatever a row holds, flipping any one bit outside its checksum changes the sum; inside it changes nothing."""
    for row in _rows(width):
        bits = np.arange(width * 64)
        flipped = np.repeat(row[None], len(bits), axis=0)
        flipped[bits, bits // 64] ^= np.uint64(1) << (bits % 64).astype(np.uint64)
        sums = checksum_rows(flipped, field)
        own = (bits // 64 == field[0]) & (bits % 64 // 32 == field[1])
        same = sums == checksum_rows(row[None], field)[0]
        assert (same == own).all()


@pytest.mark.parametrize(("_", "width", "field"), ROWS)
def test_pairs_of_flipped_bits_are_found(_: str, width: int, field: tuple[int, int]) -> None:
    """Two flips at the same place of two words do not cancel, not even at the top bit."""
    row = _rows(width)[-1]
    for bit in range(64):
        for first in range(width):
            for second in range(first + 1, width):
                if any(word == field[0] and bit // 32 == field[1] for word in (first, second)):
                    continue
                flipped = row.copy()
                flipped[[first, second]] ^= np.uint64(1 << bit)
                assert checksum_rows(flipped[None], field)[0] != checksum_rows(row[None], field)[0]


def test_zeros_are_not_valid() -> None:
    """A hole in a file reads as a row whose checksum is 0, which is not the checksum of zeros."""
    for _, width, field in ROWS:
        assert checksum_rows(np.zeros((1, width), np.uint64), field)[0] != 0


def test_blocks_do_not_matter() -> None:
    """Many rows at once give what each gives alone, and swapped words are found."""
    rows = np.random.default_rng(1).integers(0, 2**64, (9_000, 8), np.uint64, endpoint=False)
    together = checksum_rows(rows, (6, 1))
    assert all(together[row] == checksum_rows(rows[row : row + 1], (6, 1))[0] for row in range(0, 9_000, 911))
    assert (checksum_rows(rows[:, [1, 0, 2, 3, 4, 5, 6, 7]], (6, 1)) != together).all()
