"""The key in a topic's secret: `whsec_` and its base64 (standardwebhooks.com)."""

from __future__ import annotations

import base64
import binascii
from typing import Final

PREFIX: Final = "whsec_"


def signing_key(secret: str) -> bytes:
    """Return the key in a topic's secret. Raises ValueError unless the secret is `whsec_` and base64."""
    if not secret.startswith(PREFIX):
        raise ValueError(f"a webhook secret begins with {PREFIX}")
    try:
        return base64.b64decode(secret[len(PREFIX) :], validate=True)
    except binascii.Error as wrong:
        raise ValueError(f"a webhook secret is {PREFIX} and base64: {wrong}") from None
