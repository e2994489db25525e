"""The rules that registries have for their rows: a free number, a name of its own, and a level that this build reads.

A wrong row is refused by name when the registry is made, at import.
"""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from storage.format.level import LEVELS


class BadRow(ValueError):
    """Raised for a row that cannot stand in its registry. Says which row and why."""


class Row(Protocol):
    """A row of a registry, such as a state or a command. Its number is never given to another row."""

    @property
    def number(self) -> int: ...

    @property
    def name(self) -> str: ...


class LevelRow(Row, Protocol):
    """A row whose number stands in files or entries, so that it may be used from some level on."""

    @property
    def since(self) -> int:
        """The level of the cluster from which this kind exists."""
        ...


R = TypeVar("R", bound=Row)
L = TypeVar("L", bound=LevelRow)


def by_number(kind: str, rows: Iterable[R], numbers: range) -> dict[int, R]:
    """The rows of a registry by number, in their order. `kind` is the word for a row in errors. `numbers` are the
    numbers that rows may have. Raises BadRow."""
    found: dict[int, R] = {}
    names: set[str] = set()
    for row in rows:
        if isinstance(row.number, bool) or not isinstance(row.number, int) or row.number not in numbers:
            raise BadRow(f"{kind} {row.name}: a number is {numbers[0]} to {numbers[-1]}, got {row.number}")
        if not row.name:
            raise BadRow(f"{kind} {row.number} has no name")
        if row.name in names:
            raise BadRow(f"{kind} {row.name} stands here twice")
        if row.number in found:
            raise BadRow(f"{kind} {row.name}: the number {row.number} is that of {found[row.number].name}")
        found[row.number] = row
        names.add(row.name)
    return found


def by_number_with_level(kind: str, rows: Iterable[L], numbers: range) -> dict[int, L]:
    """As `by_number`, for rows that each name a level. This build must read that level. Raises BadRow."""
    found = by_number(kind, rows, numbers)
    for row in found.values():
        if row.since not in range(LEVELS[0], LEVELS[1] + 1):
            raise BadRow(f"{kind} {row.name}: this build reads levels {LEVELS[0]} to {LEVELS[1]}, not {row.since}")
    return found
