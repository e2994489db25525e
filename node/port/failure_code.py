"""The numbers that say why a hand-over failed. 100 to 599 are the HTTP status of the receiver's answer, all others are
these.

Settle records keep the number; people read the word in REASONS. The codes that apply itself writes are in
replication/apply/message/unheard.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replication.apply.message.unheard import CODE_LEASE_ENDED, CODE_MAX_AGE, CODE_RESTORED, CODE_STOPPED

TIMEOUT: Final = 1000
CONNECT: Final = 1001
FORBIDDEN_ADDRESS: Final = 1002
BROKEN: Final = 1003
DNS: Final = 1004
TLS: Final = 1005
NACKED: Final = 1006
LEASE_ENDED: Final = CODE_LEASE_ENDED
MAX_AGE: Final = CODE_MAX_AGE
NO_TARGET: Final = 1009
BAD_URL: Final = 1010
STOPPED: Final = CODE_STOPPED
RESTORED: Final = CODE_RESTORED

REASONS: Final[Mapping[int, str]] = {
    TIMEOUT: "timeout",
    CONNECT: "connect",  # refused or unreachable
    FORBIDDEN_ADDRESS: "forbidden-address",
    BROKEN: "broken",  # closed early, or no HTTP
    DNS: "dns",
    TLS: "tls",
    NACKED: "nacked",
    LEASE_ENDED: "lease-ended",
    MAX_AGE: "max-age",
    NO_TARGET: "no-target",
    BAD_URL: "bad-url",
    STOPPED: "stopped",
    RESTORED: "restored",  # overdue when the cluster was restored from a backup, and not wanted any more
}
"""The word of each code that is no HTTP status."""

ERROR_BYTES_MAX: Final = 1024
"""UTF-8 bytes kept of the text of a failure."""


def error_text(text: str) -> bytes:
    """Return the text of a failure as it is kept: UTF-8 of at most ERROR_BYTES_MAX bytes, cut between characters."""
    return text.encode(errors="replace")[:ERROR_BYTES_MAX].decode(errors="ignore").encode()
