"""Changes of directories that no sync has covered: names of files that were made, renamed or removed.

A node may make thousands of files in a thousand directories before it syncs one of them. Each sync asks for the changes
of one directory, so each directory has a list of its own. A number in each change gives the order of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path


@dataclass(slots=True)
class Name:
    """One change of a directory: a file or directory in it was made, renamed or removed. `paths` say where the affected
    files are now; the first is in the changed directory. `back(*paths)` takes the change back. `forget()` is called
    once a sync has covered the change, so that it stays."""

    paths: list[Path]
    back: Callable[..., None]
    forget: Callable[[], None]
    number: int = 0

    @property
    def directory(self) -> Path:
        """The changed directory, where it is now."""
        return self.paths[0].parent

    def follow(self, old: Path, new: Path) -> None:
        """Change the paths that are below the directory `old`, because it was renamed to `new`."""
        for place, path in enumerate(self.paths):
            if _is_below(str(path), old):
                self.paths[place] = new / path.relative_to(old)


class Names:
    """All changes of directories that no sync has covered. They are returned in the order in which they were made."""

    def __init__(self) -> None:
        self._by_directory: dict[str, list[Name]] = {}
        self._renamed: dict[int, Name] = {}  # names with two paths: the other one may be in any directory
        self._made = 0

    def __iter__(self) -> Iterator[Name]:
        """Iterate over the changes in the order in which they were made."""
        return iter(sorted((name for names in self._by_directory.values() for name in names), key=_NUMBER))

    def add(self, name: Name) -> None:
        """Add a change as the newest one."""
        self._made += 1
        name.number = self._made
        self._put([name])

    def take(self, directory: Path | None) -> list[Name]:
        """Remove the changes of one directory, or of all (None). Return them."""
        return self._take(list(self._by_directory) if directory is None else [str(directory)])

    def take_below(self, directory: Path) -> list[Name]:
        """Remove the changes of a directory and of all directories in it. Return them."""
        at = str(directory)
        return self._take([where for where in self._by_directory if where == at or _is_below(where, directory)])

    def follow(self, old: Path, new: Path) -> None:
        """Move the changes of a directory that was renamed from `old` to `new`."""
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
    return path.startswith(f"{directory}/")  # called often: Path.is_relative_to takes ten times as long
