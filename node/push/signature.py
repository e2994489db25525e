"""Signatures of webhooks, as standardwebhooks.com has them: a receiver's library checks them as it is.

    webhook-signature: v1,<base64 of HMAC-SHA256(key, "<webhook-id>.<webhook-timestamp>.<body>")>

The key is what the base64 after `whsec_` in the topic's secret says.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Final

PREFIX: Final = "whsec_"


def signing_key(secret: str) -> bytes:
    """The key in a topic's secret. Raises ValueError if it is no `whsec_` and base64."""
    if not secret.startswith(PREFIX):
        raise ValueError(f"a webhook secret begins with {PREFIX}")
    try:
        return base64.b64decode(secret[len(PREFIX) :], validate=True)
    except binascii.Error as wrong:
        raise ValueError(f"a webhook secret is {PREFIX} and base64: {wrong}") from None


def sign(key: bytes, id: str, timestamp_s: int, body: bytes) -> str:
    """The value of `webhook-signature`; the receiver gets id, timestamp and body as they are here."""
    digest = hmac.digest(key, b"%s.%d." % (id.encode(), timestamp_s) + body, "sha256")
    return "v1," + base64.b64encode(digest).decode("ascii")
