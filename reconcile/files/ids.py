"""Ids as text, a column at a time: what receipts and acknowledgements name messages by, and what tables show."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage.format.array import U64
from storage.format.message_id import ALPHABET, ID_LENGTH, ID_VERSION, encode_ids
from storage.format.position import INDEX_BITS

_INVALID: Final = 255
_LETTERS: Final = np.full(256, _INVALID, np.uint8)
for _value, _letter in enumerate(ALPHABET):
    _LETTERS[ord(_letter)] = _LETTERS[ord(_letter.lower())] = _value
_ID_AT_ONCE: Final = 8192
"""Ids whose characters stay in the processor's cache."""


def decode_ids(texts: pa.Array, group: int) -> tuple[U64, U64, npt.NDArray[np.bool_]]:
    """(home, random, whether it is an id) of each text, [n]; null is none, nor is an id of another group or version."""
    homes, randoms = np.zeros(len(texts), np.uint64), np.zeros(len(texts), np.uint64)
    sound = pc.fill_null(pc.equal(pc.binary_length(texts), ID_LENGTH), False).to_numpy(zero_copy_only=False)
    whole = texts.cast(pa.large_string()).filter(pa.array(sound))
    _, offsets, data = whole.buffers()
    at = np.frombuffer(offsets, np.int64)[whole.offset : whole.offset + len(whole) + 1] if len(whole) else [0, 0]
    letters = np.frombuffer(data, np.uint8)[at[0] : at[-1]] if len(whole) else np.empty(0, np.uint8)
    values = _LETTERS[letters].reshape(-1, ID_LENGTH)
    head, index, random = (_number(values[:, start:end]) for start, end in ((0, 8), (8, 16), (16, ID_LENGTH)))
    legible = (values != _INVALID).all(axis=1) & (head >> np.uint64(24) == np.uint64(ID_VERSION << 12 | group))
    hours = head & np.uint64((1 << 24) - 1)
    homes[sound], randoms[sound] = hours << np.uint64(INDEX_BITS) | index, random
    sound[sound] = legible
    return homes, randoms, sound


def _number(values: npt.NDArray[np.uint8]) -> U64:
    """Numbers of 5 bits a column, [n], the high ones first."""
    number = np.zeros(len(values), np.uint64)
    for column in values.T:
        number = number << np.uint64(5) | column
    return number


def id_column(group: int, homes: U64, randoms: U64) -> pa.StringArray:
    """Ids of these homes as an Arrow column, [n]: their characters are the column's buffer."""
    text = np.empty((len(homes), ID_LENGTH), np.uint8)
    for start in range(0, len(homes), _ID_AT_ONCE):
        end = start + _ID_AT_ONCE
        ids: npt.NDArray[Any] = encode_ids(group, homes[start:end], randoms[start:end])
        text[start:end] = ids.view(np.uint8).reshape(-1, ID_LENGTH)
    offsets = np.arange(len(homes) + 1, dtype=np.int32) * np.int32(ID_LENGTH)
    return pa.StringArray.from_buffers(len(homes), pa.py_buffer(offsets), pa.py_buffer(text))
