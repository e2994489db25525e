"""Signatures of webhooks, as standardwebhooks.com defines them, so that a receiver can check them with its library.

    webhook-signature: v1,<base64 of HMAC-SHA256(key, "<webhook-id>.<webhook-timestamp>.<body>")>

The key is in the topic's secret (node/push/signing_key.py).
"""

from __future__ import annotations

import base64
import hmac


def sign(key: bytes, id: str, timestamp_s: int, body: bytes) -> str:
    """Return the value of the header `webhook-signature`. The receiver must get id, timestamp and body unchanged."""
    digest = hmac.digest(key, b"%s.%d." % (id.encode(), timestamp_s) + body, "sha256")
    return "v1," + base64.b64encode(digest).decode("ascii")
