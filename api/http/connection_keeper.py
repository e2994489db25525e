"""One connection and all the others: they share a budget and take turns."""

from typing import Protocol

from api.http.watch import Watch
from api.port.budget import Budget
from api.port.loop_turn import Crowd


class ConnectionKeeper(Protocol):
    """The keeper of all connections (listener.py), as one of them sees it. It is aiohttp's server too."""

    @property
    def budget(self) -> Budget:
        """What connections hold together."""

    @property
    def watch(self) -> Watch:
        """Looks whether clients that wait have left."""

    @property
    def endings(self) -> Crowd:
        """Ends waits, a few at a time."""

    @property
    def closings(self) -> Crowd:
        """Ends what is done for connections that are closed, a few at a time."""

    def unburden(self, newest: object) -> None:
        """Close another connection, where answers that nobody reads hold too much."""
