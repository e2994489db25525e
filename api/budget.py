"""How many bytes the connections of a node may hold together: bodies under way, what is parsed of them, and answers
that nobody has read yet."""

from collections.abc import Iterator
from contextlib import contextmanager

from api.problem import Problem


class Budget:
    """Of one node. Invariant: `held` is the sum of what was counted and not given back."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held = 0

    def take(self, size: int) -> None:
        """Count `size` bytes more. `busy` where they would be too many; then none is counted."""
        if self.held + size > self.bytes_max:
            raise Problem(
                "busy",
                f"requests and answers of this node's clients hold {self.held} bytes, {self.bytes_max} is the most; "
                "send less at once, read what is answered, or use another node",
            )
        self.held += size

    def give(self, size: int) -> None:
        """They are gone."""
        self.held -= size
        assert self.held >= 0, f"{size} bytes given back, {self.held + size} held"

    @contextmanager
    def counted(self, size: int) -> Iterator[None]:
        """Count bytes that are there already, past the bound too: what comes next is refused."""
        self.held += size
        try:
            yield
        finally:
            self.give(size)
