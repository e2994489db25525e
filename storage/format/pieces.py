"""Work that stops after each piece of about a millisecond, so that its caller can serve others in between."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Pieces = Generator[None, None, T]
"""A generator that does one piece of the work at each step, and returns the result at the end."""


def at_once(work: Pieces[T]) -> T:
    """Do all of the work without a stop, and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
