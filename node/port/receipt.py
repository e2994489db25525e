"""Receipts: what a consumer shows to settle what it was handed.

A receipt names the hand-over (position, random bits of the id, topic, subscription, term, attempt). It carries a MAC
over it, keyed with the group's secret. So any leader can check one without having seen the lease, and no client can
make one up. Keyed BLAKE2b is a MAC by design (RFC 7693).

Little endian, then base64url without padding: 44 bytes, 59 characters,

```
0          8        16      20             22     26        28          44
| position | random | topic | subscription | term | attempt | MAC (16)  |
```
and from level 2 on (storage/format/level.py: every member reads it) 50 bytes, 67 characters, with the group, and the
namespace of the topic, 0 today:
```
0          8        16      20             22     26        28      30          34          50
| position | random | topic | subscription | term | attempt | group | namespace | MAC (16)  |
```
Receipts of the first form stay valid. Their first 28 bytes are a claim (CLAIM). A front passes the claim on to the
group, once it has checked the MAC.

A consumer comes with a thousand receipts, so they are made and read in columns. Only the MAC is a call for each. It
begins from a copy of the keyed state instead of hashing the key again. A leader also keeps the texts that it made
lately, because consumers send most of them back soon. Looking one up takes a tenth of the time of checking its MAC. The
MAC of all other receipts is checked.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from node.port.plain import BadColumns
from storage.format.array import U16, U32, U64
from storage.format.pieces import Pieces

_BODY: Final = [
    ("position", "<u8"),
    ("random", "<u8"),
    ("topic", "<u4"),
    ("subscription", "<u2"),
    ("term", "<u4"),
    ("attempt", "<u2"),
]
_MAC_SIZE: Final = 16
_MAC: Final = np.dtype((np.uint8, (_MAC_SIZE,)))
#: Texts in a generation. The texts of the two newest generations are known, 300 bytes each.
KNOWN_MAX: Final = 16_384
#: Receipts read at once, 1.4 us each by their MAC.
READ_AT_ONCE: Final = 1_000
#: Valid last characters of a receipt. The last character carries 4 bits of the bytes. If its other 2 bits were set, a
#: second text would name the same hand-over.
_LAST: Final = frozenset("AEIMQUYcgkosw048")


class _Form:
    """A form of receipts: the columns in front of the MAC (`body`), and the sizes that follow from them, in bytes and
    characters."""

    def __init__(self, *more: tuple[str, str]) -> None:
        self.body = np.dtype([*_BODY, *more])
        self.size = self.body.itemsize
        self.bodies = Struct(f"{self.size}s")
        self.length = -(-(self.size + _MAC_SIZE) * 4 // 3)
        #: A zero byte behind each brings it to a multiple of three. So receipts that are encoded together do not run
        #: into each other.
        self.stride = self.size + _MAC_SIZE + 1
        assert self.stride % 3 == 0, self.stride


_FIRST: Final = _Form()
_WHOLE: Final = _Form(("group", "<u2"), ("namespace", "<u4"))
assert (_FIRST.size, _FIRST.length, _WHOLE.size, _WHOLE.length) == (28, 59, 34, 67)
CLAIM: Final = _FIRST.body
"""The columns of a claim: the hand-over that a receipt names."""


@dataclass(frozen=True, slots=True, eq=False)
class ReceiptColumns:
    """The hand-overs that n receipts name, as columns of shape [n]."""

    position: U64  # where the message stood at the hand-over
    random: U64  # of the id
    topic: U32
    term: U32
    attempt: U16
    subscription: U16

    def __len__(self) -> int:
        return len(self.position)

    @classmethod
    def of(cls, claims: bytes) -> ReceiptColumns:
        """Read rows of CLAIM, one behind the other. Raises BadColumns."""
        if len(claims) % CLAIM.itemsize:
            raise BadColumns(f"Claims.rows: {len(claims)} bytes are no rows of {CLAIM.itemsize}")
        body = np.frombuffer(claims, CLAIM)
        return cls(body["position"], body["random"], body["topic"], body["term"], body["attempt"], body["subscription"])

    def select(self, rows: npt.NDArray[Any] | slice) -> ReceiptColumns:
        """Return the rows that `rows` selects: an array of indices, a boolean array or a slice."""
        return ReceiptColumns(
            self.position[rows],
            self.random[rows],
            self.topic[rows],
            self.term[rows],
            self.attempt[rows],
            self.subscription[rows],
        )


class Receipts:
    """Makes and checks the receipts of one group with its secret. `whole` is true if every member reads the longer
    form."""

    def __init__(self, secret: bytes, whole: Callable[[], bool], group: int = 0) -> None:
        self._keyed = blake2b(key=secret, digest_size=_MAC_SIZE)
        self._whole, self._group = whole, group
        self._made: dict[str, bytes] = {}  # text -> the columns that both forms have
        self._made_before: dict[str, bytes] = {}

    def make(
        self, *, position: U64, random: U64, topic: U32 | int, term: U32 | int, attempt: U16, subscription: int = 0
    ) -> list[str]:
        """Return the receipts for columns of n hand-overs, as the texts that consumers get."""
        count, form = len(position), _WHOLE if self._whole() else _FIRST
        if not count:
            return []
        body = np.zeros(count, form.body)
        for name, column in (
            ("position", position),
            ("random", random),
            ("topic", topic),
            ("subscription", subscription),
            ("term", term),
            ("attempt", attempt),
        ):
            body[name] = column
        if form is _WHOLE:
            body["group"] = self._group
        data = np.zeros((count, form.stride), np.uint8)
        data[:, : form.size] = body.view(np.uint8).reshape(count, -1)
        macs = self._macs(body.tobytes(), form)
        data[:, form.size : form.size + _MAC_SIZE] = np.frombuffer(macs, np.uint8).reshape(count, -1)
        text = base64.urlsafe_b64encode(data.tobytes()).decode("ascii")
        texts = [text[start : start + form.length] for start in range(0, len(text), form.length + 1)]
        self._keep(texts, data[:, : _FIRST.size].tobytes())
        return texts

    def read(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.intp], bytes]:
        """Return the rows of `texts` that are receipts of this group, ascending, and a row of CLAIM for each of
        those."""
        if (made := self._known(texts)) is not None:
            return np.arange(len(texts)), b"".join(made)
        forms = [form for form in (_WHOLE, _FIRST) if any(len(text) == form.length for text in texts)]
        if len(forms) < 2:
            return self._read(texts, forms[0] if forms else _FIRST)
        (rows, claims), (others, more) = (self._read(texts, form) for form in forms)
        rows = np.concatenate([rows, others])
        order = np.argsort(rows)
        return rows[order], np.frombuffer(claims + more, CLAIM)[order].tobytes()

    def read_in_pieces(self, texts: Sequence[str]) -> Pieces[tuple[npt.NDArray[np.intp], bytes]]:
        """Do the same as `read`, in pieces of READ_AT_ONCE."""
        if len(texts) <= READ_AT_ONCE:
            return self.read(texts)
        rows: list[npt.NDArray[np.intp]] = []
        claims: list[bytes] = []
        for start in range(0, len(texts), READ_AT_ONCE):
            found, named = self.read(texts[start : start + READ_AT_ONCE])
            rows.append(found + start)
            claims.append(named)
            yield
        return np.concatenate(rows), b"".join(claims)

    def _read(self, texts: Sequence[str], form: _Form) -> tuple[npt.NDArray[np.intp], bytes]:
        fitting = [row for row, text in enumerate(texts) if len(text) == form.length and text[-1] in _LAST]
        rows = np.array(fitting, np.intp)
        data = _decode([texts[row] for row in fitting] if len(rows) < len(texts) else texts)
        if data is None:  # one has a character that is not of base64
            rows = np.array([row for row in fitting if _decode([texts[row]]) is not None], np.intp)
            data = _decode([texts[row] for row in rows.tolist()])
            assert data is not None
        table = np.frombuffer(data, np.uint8).reshape(-1, form.stride)
        raw = table[:, : form.size].tobytes()
        shown, macs = table[:, form.size : form.size + _MAC_SIZE].tobytes(), self._macs(raw, form)
        if not hmac.compare_digest(shown, macs):
            # Every byte is compared, wherever the first difference is.
            genuine = (np.frombuffer(shown, _MAC) == np.frombuffer(macs, _MAC)).all(axis=1)
            rows, table = rows[genuine], table[genuine]
        if form is _WHOLE:
            body = np.frombuffer(table[:, : form.size].tobytes(), form.body)
            ours = (body["group"] == self._group) & (body["namespace"] == 0)
            if not ours.all():
                rows, table = rows[ours], table[ours]
        return rows, table[:, : CLAIM.itemsize].tobytes()

    def _keep(self, texts: list[str], bodies: bytes) -> None:
        if len(self._made) + len(texts) > KNOWN_MAX:
            self._made, self._made_before = {}, self._made
        self._made.update(zip(texts, [body for (body,) in _FIRST.bodies.iter_unpack(bodies)], strict=True))

    def _known(self, texts: Sequence[str]) -> list[bytes] | None:
        """Return the claims of these texts, if all were made here lately. None otherwise."""
        known = list(map(self._made.get, texts))
        if None in known:
            before = self._made_before.get
            known = [body or before(text) for text, body in zip(texts, known, strict=True)]
        bodies = [body for body in known if body is not None]
        return bodies if bodies and len(bodies) == len(texts) else None

    def _macs(self, bodies: bytes, form: _Form) -> bytes:
        """Return the MACs of these bodies, one behind the other."""
        copy, macs = self._keyed.copy, []
        for (body,) in form.bodies.iter_unpack(bodies):
            state = copy()
            state.update(body)
            macs.append(state.digest())
        return b"".join(macs)


def _decode(texts: Sequence[str]) -> bytes | None:
    """Return the bytes of all texts, one behind the other, each with a zero byte behind it. None if one text has a
    character that is not of base64url."""
    joined = "A".join([*texts, ""])
    if not joined.isascii() or "+" in joined or "/" in joined:  # b64decode takes these for - and _
        return None
    try:
        return base64.b64decode(joined, altchars=b"-_", validate=True)
    except binascii.Error:
        return None
