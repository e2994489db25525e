"""Receipts: what a consumer shows to settle what it was handed.

A receipt names the hand-over (position, random bits of the id, topic, subscription, term, attempt) and carries a MAC
over it, keyed with the cluster's secret, so that any leader can check one without having seen the lease, and nobody can
make one up. Keyed BLAKE2b is a MAC by design (RFC 7693) and about 1 us.

44 bytes, little endian, then base64url without padding (59 characters):

```
0          8        16      20             22     26        28          44
| position | random | topic | subscription | term | attempt | MAC (16)  |
```
"""

from __future__ import annotations

import base64
import binascii
import hmac
import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

_BODY: Final = struct.Struct("<QQIHIH")
_MAC_SIZE: Final = 16
_LENGTH: Final = 59
#: The last character carries 4 bits of the 44 bytes; with its other 2 bits set a second text would name the same.
_LAST: Final = frozenset("AEIMQUYcgkosw048")


class Receipt(NamedTuple):
    """The hand-over that a receipt names."""

    position: int
    random: int
    topic: int
    subscription: int
    term: int
    attempt: int


class Receipts:
    """Makes and checks receipts with one cluster's secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def make(self, receipt: Receipt) -> str:
        """The text a consumer gets."""
        return self.make_all([receipt])[0]

    def make_all(self, receipts: Iterable[Receipt]) -> list[str]:
        """The texts for these hand-overs. All are encoded at once: a zero byte brings each to a multiple of three, so
        that they do not run into each other; it only changes the character that is cut off."""
        secret, pieces = self._secret, []
        for receipt in receipts:
            body = _BODY.pack(*receipt)
            pieces += [body, blake2b(body, key=secret, digest_size=_MAC_SIZE).digest(), b"\0"]
        text = base64.urlsafe_b64encode(b"".join(pieces)).decode("ascii")
        return [text[start : start + _LENGTH] for start in range(0, len(text), _LENGTH + 1)]

    def read(self, text: str) -> Receipt | None:
        """The hand-over, or None if the text is not a receipt of this cluster."""
        if len(text) != _LENGTH or not text.isascii():
            return None
        try:
            data = base64.b64decode(text + "=", altchars=b"-_", validate=True)
        except binascii.Error:
            return None
        if text[-1] not in _LAST:
            return None
        body, mac = data[: _BODY.size], data[_BODY.size :]
        if not hmac.compare_digest(mac, blake2b(body, key=self._secret, digest_size=_MAC_SIZE).digest()):
            return None
        return Receipt(*_BODY.unpack(body))
