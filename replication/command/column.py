"""The columns of a command as bytes in the payload of its section. They stand one behind the other, each padded to 8
bytes.

Reading copies no column. A section whose columns do not fit its length is refused before anything is applied. So an
entry that is short or made by an attacker gives the same error on every node.
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from replication.command.entry import EntryRefused, pad8
from storage.format.array import I64
from storage.format.position import HOUR_MAX, HOUR_MS

Rows = npt.NDArray[np.intp]
"""The numbers of some rows of a command."""

DUE_MS_MAX = (HOUR_MAX + 1) * HOUR_MS - 1
"""The last millisecond of the last possible hour."""

_LENGTH = struct.Struct("<II")


def pack_columns(*columns: npt.NDArray[Any]) -> list[bytes]:
    """The bytes of each column, padded to a multiple of 8."""
    packed = [np.ascontiguousarray(column).tobytes() for column in columns]
    return [data + bytes(pad8(len(data))) for data in packed]


def pack_map(value: dict[str, Any]) -> bytes:
    """The bytes of a map, for the few fields of a command that are no columns. They are a length (u32), 4 zero bytes,
    and the map as msgpack, padded to a multiple of 8.
    """
    data: bytes = msgpack.packb(value)
    return _LENGTH.pack(len(data), 0) + data + bytes(pad8(len(data)))


def filled(value: Any, what: type, name: str) -> Any:
    """Return `value` if it is of the type `what`. If it is not, or is missing, raises `EntryRefused` with the name
    `name`.
    """
    if not isinstance(value, what) or (what is int and isinstance(value, bool)):
        raise EntryRefused(f"{name}: {what.__name__} expected, found {type(value).__name__}")
    return value


def names(value: dict[str, Any], name: str) -> tuple[str, ...]:
    """The list of texts that a map has under `name`. Raises `EntryRefused`."""
    return tuple(filled(text, str, name) for text in filled(value.get(name), list, name))


def check_due(due_ms: I64) -> None:
    """Raises `EntryRefused` for a due time beyond the last possible hour. Due times in the past are allowed, because
    apply replaces them by a later one.
    """
    if len(due_ms) and due_ms[due_ms.argmax()] > DUE_MS_MAX:
        raise EntryRefused(f"due at {int(due_ms.max())} ms; at most {DUE_MS_MAX}")


class ColumnReader:
    """Reads what `pack_map` and `pack_columns` wrote, in the same order. `rows` is the length of each column. Raises
    `EntryRefused` if it does not fit the payload.
    """

    def __init__(self, payload: memoryview, rows: int) -> None:
        self._payload = payload
        self._rows = rows
        self._at = 0

    def column(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A read-only view of the next column, `rows` long."""
        kind = np.dtype(dtype)
        at = self._take(self._rows * kind.itemsize)
        return np.frombuffer(self._payload, kind, self._rows, at)

    def bytes(self, length: int) -> memoryview:
        """A view of the next `length` bytes. The padding behind them is skipped."""
        at = self._take(length)
        return self._payload[at : at + length]

    def map(self) -> dict[str, Any]:
        """The next msgpack map."""
        length, _ = _LENGTH.unpack(self._raw(_LENGTH.size))
        try:
            value = msgpack.unpackb(self.bytes(length), raw=False, strict_map_key=False)
        except (ValueError, TypeError, msgpack.UnpackException) as broken:
            raise EntryRefused(f"map of {length} bytes is not msgpack: {broken}") from None
        if not isinstance(value, dict):
            raise EntryRefused(f"map expected, found {type(value).__name__}")
        return value

    def _take(self, length: int) -> int:
        """Return the offset of the next `length` bytes, and move on past their padding."""
        at = self._at
        if length < 0 or at + length > len(self._payload):
            raise EntryRefused(f"column of {length} bytes at byte {at} past the section's {len(self._payload)} bytes")
        self._at = at + length + pad8(length)
        return at

    def _raw(self, length: int) -> memoryview:
        if self._at + length > len(self._payload):
            raise EntryRefused(f"{length} bytes at byte {self._at} past the section's {len(self._payload)} bytes")
        data = self._payload[self._at : self._at + length]
        self._at += length
        return data

    def end(self) -> None:
        """Check that only padding follows the last column."""
        if self._at < len(self._payload):
            raise EntryRefused(f"{len(self._payload) - self._at} bytes after the last column")
