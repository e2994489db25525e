"""Names that no sync has covered: what was made, renamed and removed, by the directory it is in.

A node may make thousands of files in a thousand directories before it syncs one of them. Each sync asks for one
directory, so each has a list of its own. A name has a number: the order in which all were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path


@dataclass(slots=True)
class Name:
    """One change of a directory, and how to take it back: `back` is given the paths as they are by then, the first of
    which is in that directory."""

    paths: list[Path]
    back: Callable[..., None]
    forget: Callable[[], None]
    number: int = 0

    @property
    def directory(self) -> Path:
        """The one that changed, where it is now."""
        return self.paths[0].parent

    def follow(self, old: Path, new: Path) -> None:
        """A directory was renamed: what is in it is there now."""
        for place, path in enumerate(self.paths):
            if _is_below(str(path), old):
                self.paths[place] = new / path.relative_to(old)


class Names:
    """The changes that no sync has covered. What is taken of them is in the order in which they were made."""

    def __init__(self) -> None:
        self._by_directory: dict[str, list[Name]] = {}
        self._renamed: dict[int, Name] = {}  # those of two paths: the other one may be in any directory
        self._made = 0

    def __iter__(self) -> Iterator[Name]:
        """In the order in which they were made."""
        return iter(sorted((name for names in self._by_directory.values() for name in names), key=_NUMBER))

    def add(self, name: Name) -> None:
        """The last of all."""
        self._made += 1
        name.number = self._made
        self._put([name])

    def take(self, directory: Path | None) -> list[Name]:
        """Those of one directory, or of all; they are here no more."""
        return self._take(list(self._by_directory) if directory is None else [str(directory)])

    def take_below(self, directory: Path) -> list[Name]:
        """Those of a directory and of all in it; they are here no more."""
        at = str(directory)
        return self._take([where for where in self._by_directory if where == at or _is_below(where, directory)])

    def follow(self, old: Path, new: Path) -> None:
        """A directory was renamed."""
        moved = self.take_below(old)
        for name in [*moved, *self._renamed.values()]:
            name.follow(old, new)
        self._put(moved)

    def _take(self, directories: list[str]) -> list[Name]:
        taken = sorted((name for where in directories for name in self._by_directory.pop(where, ())), key=_NUMBER)
        for name in taken:
            self._renamed.pop(name.number, None)
        return taken

    def _put(self, names: list[Name]) -> None:
        for name in names:
            self._by_directory.setdefault(str(name.directory), []).append(name)
            if len(name.paths) > 1:
                self._renamed[name.number] = name


_NUMBER = attrgetter("number")


def _is_below(path: str, directory: Path) -> bool:
    return path.startswith(f"{directory}/")  # many are asked: Path.is_relative_to takes ten times as long
