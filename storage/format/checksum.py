"""Checksum of many short fixed-size rows at once.

A CRC of a 64-byte unit costs 0.2 us, most of it the call from Python. For a batch of 1,000 units that would be more
than all the rest of apply. A multilinear hash over 64-bit words is one multiplication and one sum, which numpy does for
all rows together.

Each word is first folded (`w ^ w >> 32`, a bijection). Otherwise its top bit would reach only the top bit of the sum,
and two such flips would cancel. Any single flipped bit changes the result (a test shows it for every bit of every kind
of row). Other damage is missed once in 2^32. The checksum of zeros is not zero, so a hole is never a valid row.
"""

from typing import Final

import numpy as np

from storage.format.array import U32, U64

_MASK: Final = (1 << 64) - 1
_WORDS_MAX: Final = 16
_HALF: Final = np.array(32, np.uint64)
_KEEP: Final = (np.uint64(_MASK >> 32 << 32), np.uint64(_MASK >> 32))
"""The part of a word that stays when its low or its high half is the checksum."""
_ROWS_AT_ONCE: Final = 4096
"""Rows whose words stay in the processor's cache from one step to the next."""


def _splitmix64(seed: int, count: int) -> list[int]:
    """The first `count` numbers of splitmix64, whose 64 bits look random. They are fixed constants of the format."""
    numbers = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & _MASK
        mixed = seed
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        numbers.append(mixed ^ (mixed >> 31))
    return numbers


_CONSTANTS: Final = _splitmix64(0x486F7572_77686565, _WORDS_MAX + 1)
_START: Final = np.array(_CONSTANTS[0], np.uint64)
_FACTORS: Final = np.array([number | 1 for number in _CONSTANTS[1:]], np.uint64)


def checksum_rows(rows: U64, field: tuple[int, int] | None = None) -> U32:
    """Checksums, shape [n], of rows of 64-bit words, shape [n, w], w <= 16, as if their checksum field were zero.

    `field` is the place of the checksum: (word, 0 for its low half or 1 for its high half). None says that the field is
    zero, which saves the masking for rows about to get their checksum.
    """
    count, width = rows.shape
    if count > _ROWS_AT_ONCE:
        parts = [rows[start : start + _ROWS_AT_ONCE] for start in range(0, count, _ROWS_AT_ONCE)]
        return np.concatenate([checksum_rows(part, field) for part in parts])
    assert width <= _WORDS_MAX, f"rows of {width} words, at most {_WORDS_MAX}"
    folded = rows >> _HALF
    folded ^= rows
    if field is not None:
        word, half = field
        rest = rows[:, word] & _KEEP[half]
        folded[:, word] = rest if half else rest ^ (rest >> _HALF)
    sums = folded.dot(_FACTORS[:width]) + _START
    checksums: U32 = (sums >> _HALF).astype(np.uint32)
    return checksums
