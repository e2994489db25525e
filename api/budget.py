"""What all connections of a node may hold together: how many they are, and how many bytes of bodies under way, of what
is parsed of them, and of answers that nobody has read yet."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from api.problem import Problem

CONNECTIONS_MAX: Final = 10_000
BYTES_MAX: Final = 256 * 1024 * 1024
#: Bodies up to this size are not counted: what settles messages goes on when the budget is used up.
UNCOUNTED_BYTES: Final = 4_096


class Budget:
    """Of one node. Invariant: `held_bytes` is the sum of what was counted and not given back. `connections` are those
    that are open, kept by the listener; `refused` what was answered `busy`."""

    def __init__(self, bytes_max: int = BYTES_MAX, connections_max: int = CONNECTIONS_MAX) -> None:
        self.bytes_max = bytes_max
        self.connections_max = connections_max
        self.held_bytes = 0
        self.connections = 0
        self.refused = 0

    def take(self, size: int) -> None:
        """Count `size` bytes more. `busy` where they would be too many; then none is counted."""
        if self.held_bytes + size > self.bytes_max:
            self.refused += 1
            raise Problem(
                "busy",
                f"requests and answers of this node's clients hold {self.held_bytes} bytes, {self.bytes_max} is the "
                "most; send less at once, read what is answered, or use another node",
            )
        self.held_bytes += size

    def give(self, size: int) -> None:
        """They are gone."""
        self.held_bytes -= size
        assert self.held_bytes >= 0, f"{size} bytes given back, {self.held_bytes + size} held"

    @contextmanager
    def counted(self, size: int) -> Iterator[None]:
        """Count bytes that are there already, past the bound too: what comes next is refused."""
        self.held_bytes += size
        try:
            yield
        finally:
            self.give(size)

    def full(self) -> Problem:
        """The answer to a connection too many."""
        self.refused += 1
        return Problem("busy", f"this node has {self.connections_max} connections, as many as it takes; use fewer")

    def figures(self) -> dict[str, int]:
        """For GET /v1/node."""
        return {
            "connections": self.connections,
            "connections_max": self.connections_max,
            "held_bytes": self.held_bytes,
            "held_bytes_max": self.bytes_max,
            "refused": self.refused,
        }
