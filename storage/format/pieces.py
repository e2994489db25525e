"""Work that stops after each piece of about a millisecond, for whoever has others to serve in between."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Pieces = Generator[None, None, T]
"""Work that returns its result in the end."""


def at_once(work: Pieces[T]) -> T:
    """All of it, without a stop."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
