"""Message ids: a position that cannot be guessed, in 26 characters.

```
bits 0         4          16        40                  80             130
     | version | group    | hour    | global_index      | random       |      Crockford base32, 5 bits a character
```
A look-up by id needs no index, because hour and global_index are the position. The record's header also has the 50
random bits. They make ids unguessable and catch a position that is not the message's.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from storage.format.array import U64
from storage.format.position import HOUR_MAX, INDEX_BITS, INDEX_MAX, pack

ID_VERSION: Final = 1
ID_LENGTH: Final = 26
RANDOM_BITS: Final = 50
GROUP_MAX: Final = (1 << 12) - 1

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES: Final = {letter: value for value, letter in enumerate(ALPHABET)} | {
    letter.lower(): value for value, letter in enumerate(ALPHABET)
}

_PAIRS: Final = np.frombuffer("".join(high + low for high in ALPHABET for low in ALPHABET).encode(), "<u2")
"""Two characters for each value of 10 bits. Takes half the look-ups of one character at a time."""
_TRIPLES: Final = [high + middle + low for high in ALPHABET for middle in ALPHABET for low in ALPHABET]
"""Three characters for each value of 15 bits, to make one id at a time."""
_PAIR_TEXTS: Final = [high + low for high in ALPHABET for low in ALPHABET]
_SHIFTS_40: Final = np.array([30, 20, 10, 0], np.uint64)
_SHIFTS_50: Final = np.array([40, 30, 20, 10, 0], np.uint64)
_TEN_BITS: Final = np.uint64(1023)


class BadId(ValueError):
    """Raised for a text that is not a message id. Says why."""


@dataclass(frozen=True, slots=True)
class MessageId:
    """The parts of an id. `position` is that of the message's home, and packs `hour` and `global_index`."""

    version: int
    group: int
    hour: int
    global_index: int
    random: int
    position: int


def encode_ids(group: int, positions: U64, random: U64) -> npt.NDArray[np.bytes_]:
    """Ids, dtype S26, shape [n], of positions with their random bits (the low 50 are used)."""
    assert 0 <= group <= GROUP_MAX, f"group {group}"
    count = len(positions)
    assert len(random) == count, f"{len(random)} random numbers for {count} positions"
    prefix = np.uint64((ID_VERSION << 12 | group) << 24)
    tens = np.empty((count, ID_LENGTH // 2), np.uint64)
    np.right_shift(((positions >> np.uint64(INDEX_BITS)) | prefix)[:, None], _SHIFTS_40, out=tens[:, 0:4])
    np.right_shift(positions[:, None], _SHIFTS_40, out=tens[:, 4:8])
    np.right_shift(random[:, None], _SHIFTS_50, out=tens[:, 8:13])
    tens &= _TEN_BITS
    return _PAIRS.take(tens.view(np.int64)).view(f"S{ID_LENGTH}").reshape(count)


def encode_id(group: int, position: int, random: int) -> str:
    """The id of one position."""
    return (
        f"{_first_characters(group, position >> 10)}{_PAIR_TEXTS[position & 1023]}{_TRIPLES[random >> 35 & 32767]}"
        f"{_TRIPLES[random >> 20 & 32767]}{_TRIPLES[random >> 5 & 32767]}{ALPHABET[random & 31]}"
    )


@lru_cache(maxsize=16_384)
def _first_characters(group: int, block: int) -> str:
    """The first characters of the ids of 1,024 neighbouring positions."""
    number = (ID_VERSION << 12 | group) << 54 | block
    return "".join(ALPHABET[number >> shift & 31] for shift in range(65, -1, -5))


def decode_id(text: str) -> MessageId:
    """The parts of an id, upper or lower case. Raises BadId."""
    if len(text) != ID_LENGTH:
        raise BadId(f"an id has {ID_LENGTH} characters, this has {len(text)}")
    number = 0
    for letter in text:
        value = _VALUES.get(letter)
        if value is None:
            raise BadId(f"{letter!r} is not a character of an id")
        number = number << 5 | value
    random = number & (1 << RANDOM_BITS) - 1
    number >>= RANDOM_BITS
    global_index = number & INDEX_MAX
    number >>= INDEX_BITS
    hour = number & HOUR_MAX
    group = number >> 24 & GROUP_MAX
    version = number >> 36
    if version != ID_VERSION:
        raise BadId(f"id version {version}; this build reads {ID_VERSION}")
    return MessageId(version, group, hour, global_index, random, pack(hour, global_index))
