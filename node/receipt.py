"""Receipts: what a consumer shows to settle what it was handed.

A receipt names the hand-over (place, random bits of the id, topic, subscription, term, attempt) and carries a MAC over
it, keyed with the cluster's secret, so that any leader can check one without having seen the lease, and nobody can make
one up. Keyed BLAKE2b is a MAC by design (RFC 7693).

44 bytes, little endian, then base64url without padding (59 characters):

```
0          8        16      20             22     26        28          44
| position | random | topic | subscription | term | attempt | MAC (16)  |
```

A consumer comes with a thousand of them, so they are made and read in columns. Only the MAC is a call for each, and
that begins from a copy of the keyed state instead of hashing the key again.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from storage.array import U16, U32, U64

_BODY: Final = np.dtype(
    [
        ("position", "<u8"),
        ("random", "<u8"),
        ("topic", "<u4"),
        ("subscription", "<u2"),
        ("term", "<u4"),
        ("attempt", "<u2"),
    ]
)
_BODY_SIZE: Final = _BODY.itemsize
_MAC_SIZE: Final = 16
#: A zero byte behind each brings it to a multiple of three, so that those encoded together do not run into each other.
_STRIDE: Final = _BODY_SIZE + _MAC_SIZE + 1
_LENGTH: Final = 59
#: The last character carries 4 bits of the 44 bytes; with its other 2 bits set a second text would name the same.
_LAST: Final = frozenset("AEIMQUYcgkosw048")
assert _BODY_SIZE == 28
assert _STRIDE % 3 == 0


@dataclass(frozen=True, slots=True, eq=False)
class ReceiptColumns:
    """Hand-overs that receipts name, shape [n] each."""

    position: U64  # the place at the time of the hand-over
    random: U64  # of the id
    topic: U32
    term: U32
    attempt: U16
    subscription: U16

    def __len__(self) -> int:
        return len(self.position)

    def select(self, rows: npt.NDArray[Any] | slice) -> ReceiptColumns:
        """The rows given by an index array, a mask or a slice."""
        return ReceiptColumns(
            self.position[rows],
            self.random[rows],
            self.topic[rows],
            self.term[rows],
            self.attempt[rows],
            self.subscription[rows],
        )


class Receipts:
    """Makes and checks receipts with one cluster's secret."""

    def __init__(self, secret: bytes) -> None:
        self._keyed = blake2b(key=secret, digest_size=_MAC_SIZE)

    def make(
        self, *, position: U64, random: U64, topic: U32 | int, term: U32 | int, attempt: U16, subscription: int = 0
    ) -> list[str]:
        """The texts that consumers get, for columns of n hand-overs."""
        count = len(position)
        if not count:
            return []
        body = np.empty(count, _BODY)
        for name, column in (
            ("position", position),
            ("random", random),
            ("topic", topic),
            ("subscription", subscription),
            ("term", term),
            ("attempt", attempt),
        ):
            body[name] = column
        data = np.zeros((count, _STRIDE), np.uint8)
        raw = body.tobytes()
        data[:, :_BODY_SIZE] = np.frombuffer(raw, np.uint8).reshape(count, -1)
        data[:, _BODY_SIZE : _BODY_SIZE + _MAC_SIZE] = np.frombuffer(self._macs(raw), np.uint8).reshape(count, -1)
        text = base64.urlsafe_b64encode(data.tobytes()).decode("ascii")
        return [text[start : start + _LENGTH] for start in range(0, len(text), _LENGTH + 1)]

    def read(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.intp], ReceiptColumns]:
        """Which of the texts are receipts of this cluster, ascending, and the hand-overs that those name."""
        rows = np.array([row for row, text in enumerate(texts) if len(text) == _LENGTH and text[-1] in _LAST], np.intp)
        data = _decode([texts[row] for row in rows.tolist()] if len(rows) < len(texts) else texts)
        if data is None:  # among them a character that is none of base64
            rows = np.array([row for row in rows.tolist() if _decode([texts[row]]) is not None], np.intp)
            data = _decode([texts[row] for row in rows.tolist()])
            assert data is not None
        table = np.frombuffer(data, np.uint8).reshape(-1, _STRIDE)
        raw = table[:, :_BODY_SIZE].tobytes()
        shown, macs = table[:, _BODY_SIZE : _BODY_SIZE + _MAC_SIZE].tobytes(), self._macs(raw)
        body = np.frombuffer(raw, _BODY)
        if not hmac.compare_digest(shown, macs):
            genuine = [hmac.compare_digest(*pair) for pair in zip(_pieces(shown), _pieces(macs), strict=True)]
            rows, body = rows[genuine], body[genuine]
        return rows, ReceiptColumns(
            body["position"], body["random"], body["topic"], body["term"], body["attempt"], body["subscription"]
        )

    def _macs(self, bodies: bytes) -> bytes:
        """The MACs of these bodies, one behind the other."""
        copy, macs = self._keyed.copy, []
        for start in range(0, len(bodies), _BODY_SIZE):
            state = copy()
            state.update(bodies[start : start + _BODY_SIZE])
            macs.append(state.digest())
        return b"".join(macs)


def _pieces(macs: bytes) -> list[bytes]:
    return [macs[start : start + _MAC_SIZE] for start in range(0, len(macs), _MAC_SIZE)]


def _decode(texts: Sequence[str]) -> bytes | None:
    """_STRIDE bytes for each text, the last one zero; None if one holds a character that is none of base64url."""
    joined = "A".join([*texts, ""])
    if not joined.isascii() or "+" in joined or "/" in joined:  # b64decode takes these for - and _
        return None
    try:
        return base64.b64decode(joined, altchars=b"-_", validate=True)
    except binascii.Error:
        return None
