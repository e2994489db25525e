"""Records why connections were refused: the last reason of each peer for the status page, and a log line now and
then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replication.wire.handshake import Refusal
from replication.wire.said_seldom import SaidSeldom

AGAIN_S = 60.0
"""A refusal of the same peer for the same reason is logged again after this time."""
KEPT_MAX = 64


class Refused:
    """Keeps the last refusal of each peer, or of each remote address, in `by_peer`. It keeps KEPT_MAX of them at most,
    so strangers cannot make it grow. `now` returns monotonic seconds.
    """

    def __init__(self, seldom: SaidSeldom, now: Callable[[], float]) -> None:
        self.by_peer: dict[str, Refusal] = {}
        self._seldom = seldom
        self._now = now
        self._said_s: dict[tuple[str, str], float] = {}

    def note(self, whom: str, refusal: Refusal) -> None:
        """Record that this node refused a connection with `whom` (a node id or an address), or was refused by it."""
        now = self._now()
        last_s = self._said_s.pop((whom, refusal.reason), -AGAIN_S)
        if now - last_s >= AGAIN_S:  # said now and then, not with every attempt
            last_s = now
            note = f" [{refusal.note}]" if refusal.note else ""
            self._seldom.error("no connection with %s: %s (%s)%s", whom, refusal.detail, refusal.reason, note)
        self._said_s[whom, refusal.reason] = last_s
        self.by_peer[whom] = refusal
        _bound(self.by_peer)
        _bound(self._said_s)


def _bound(kept: dict[Any, Any]) -> None:
    """Remove the oldest items beyond KEPT_MAX."""
    while len(kept) > KEPT_MAX:
        del kept[next(iter(kept))]
