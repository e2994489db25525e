"""Which headers of a webhook are the sender's to choose: not ours, and not those of the hop."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

#: A header's name, or a method (RFC 9110).
TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_OURS: Final = ("webhook-", "hourwheel-")
#: Those of the hop, of the body's length, and Expect, which would hold the body back until the receiver asks for it.
_NOT_THEIRS: Final = frozenset(
    ("host", "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te")
    + ("trailer", "transfer-encoding", "upgrade", "content-length", "expect")
)


def chosen_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """By name in lower case, without those that are ours or the connection's. The API refuses most of them; what gets
    here all the same must not forge a signature's headers or the length of the body."""
    lowered = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lowered.items() if name not in _NOT_THEIRS and not name.startswith(_OURS)}
