"""The keeper of all connections as one connection sees it: the budget that all share, and the queues in which they wait
for their turn."""

from typing import Protocol

from api.http.watch import Watch
from api.port.budget import Budget
from api.port.loop_turn import Crowd


class ConnectionKeeper(Protocol):
    """The keeper (`api.http.listener.Listener`). It is aiohttp's server too."""

    @property
    def budget(self) -> Budget:
        """The bound on what all connections hold together."""

    @property
    def watch(self) -> Watch:
        """Watches for clients that leave while their requests wait."""

    @property
    def endings(self) -> Crowd:
        """The queue of waits to end, a few in each round of the loop."""

    @property
    def closings(self) -> Crowd:
        """The queue of closed connections whose work is to end, a few in each round of the loop."""

    def unburden(self, newest: object) -> None:
        """Close the connection whose answer is unread for longest, but not `newest`, if unread answers hold too much
        memory."""
