"""Signatures of webhooks, as standardwebhooks.com defines them: a receiver's library checks them as it is.

    webhook-signature: v1,<base64 of HMAC-SHA256(key, "<webhook-id>.<webhook-timestamp>.<body>")>

The key is in the topic's secret (node/push/signing_key.py).
"""

from __future__ import annotations

import base64
import hmac


def sign(key: bytes, id: str, timestamp_s: int, body: bytes) -> str:
    """The value of `webhook-signature`. The receiver gets id, timestamp and body as they are here."""
    digest = hmac.digest(key, b"%s.%d." % (id.encode(), timestamp_s) + body, "sha256")
    return "v1," + base64.b64encode(digest).decode("ascii")
