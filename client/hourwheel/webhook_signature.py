"""Standard Webhooks signatures, from the receiver's side: HMAC-SHA256 over "id.timestamp.body".

Written apart from the sender's code on purpose: no test would find a mistake in code that both share.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

PREFIX: Final = "whsec_"
TOLERANCE_S: Final = 300
"""A timestamp further away than this is refused: a copied delivery cannot be sent again later."""


class BadSecret(ValueError):
    """A text that is no secret. The message says what a secret looks like."""


def read_secret(text: str) -> bytes:
    """Return the key of a secret, which is "whsec_" and base64. Raises BadSecret."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(PREFIX) or not key:
        raise BadSecret(f"a secret is {PREFIX} and base64")
    return key


def sign(key: bytes, webhook_id: str, timestamp: str, body: bytes) -> str:
    """One signature, as it stands in the header: "v1,<base64>"."""
    signed = f"{webhook_id}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def check(key: bytes, headers: Mapping[str, str], body: bytes, now_s: float) -> str:
    """Return "ok", or what is wrong: missing, stale, wrong. Names in `headers` are in lower case. The signature header
    may have several signatures, with spaces between them; one that is right is enough."""
    webhook_id, timestamp, signatures = (headers.get(f"webhook-{name}") for name in ("id", "timestamp", "signature"))
    if not webhook_id or not timestamp or not signatures:
        return "missing"
    if not (timestamp.isascii() and timestamp.isdigit()) or abs(now_s - int(timestamp[:16])) > TOLERANCE_S:
        return "stale"
    expected = sign(key, webhook_id, timestamp, body).encode()
    good = any(hmac.compare_digest(expected, given.encode()) for given in signatures.split(" "))
    return "ok" if good else "wrong"
