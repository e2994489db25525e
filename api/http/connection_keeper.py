"""The keeper of all connections as one connection sees it: a common budget, and turns."""

from typing import Protocol

from api.http.watch import Watch
from api.port.budget import Budget
from api.port.loop_turn import Crowd


class ConnectionKeeper(Protocol):
    """The keeper (listener.py). It is aiohttp's server too."""

    @property
    def budget(self) -> Budget:
        """The bound on what all connections hold together."""

    @property
    def watch(self) -> Watch:
        """Watches for clients that leave while their requests wait."""

    @property
    def endings(self) -> Crowd:
        """Ends waits, a few at a time."""

    @property
    def closings(self) -> Crowd:
        """Ends the work for closed connections, a few at a time."""

    def unburden(self, newest: object) -> None:
        """Close another connection, if unread answers hold too much."""
