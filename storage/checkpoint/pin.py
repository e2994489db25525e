"""A pin holds a durable checkpoint, so that it can be read while the store goes on.

```
loop    Store.pin        LMDB's transaction begun, the directories it names marked: one moment
thread  prepare          LMDB copied from that transaction into pins/<n>/, which ends it
thread  read             pieces of the files, by what the manifest says of their lengths
any     release          the copy is removed; directories that only this pin held may be removed
```
While a pin lives, no directory that it names is removed. A checkpoint leaves such a directory to the first checkpoint
after the release. The directory's name stays taken: an hour that is begun anew takes another generation. Files grow
behind the manifest's lengths and never change before them. The transaction ends when LMDB is copied, because until then
LMDB cannot use its free pages again. A crash may leave part of a copy; opening the store removes it.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import google_crc32c

from storage.catalog.catalog_pin import CatalogPin
from storage.catalog.checkpoint_record import CheckpointRecord
from storage.catalog.hour_lengths import HourRows
from storage.checkpoint.manifest import CATALOG_FILE, Manifest, SnapshotRefused
from storage.checkpoint.unlinked_hours import Directory
from storage.file.disk import Disk
from storage.format.rows import Corrupt

PINS: Final = "pins"


class Pins:
    """The directories that pins hold, and those that wait for a release to be removed.

    `hold` is for the loop's thread, the other methods for any. There is no lock, because the interpreter does not
    interrupt any step. A checkpoint asks `removable` after its commit. A pin that began before that commit either holds
    its directories by then, or `hold` is still running and nothing is removable. A later pin is of the new checkpoint,
    which names none of the removed directories.
    """

    def __init__(self) -> None:
        self._held: dict[int, HourRows] = {}  # the hours of each pin, by its number
        self._beginning = False
        self._kept: set[Directory] = set()
        self._made = 0

    def hold(self, begin: Callable[[], CatalogPin | None]) -> tuple[CatalogPin, int] | None:
        """Call `begin` and hold the directories that its pin names. Return the pin and its number, or None if `begin`
        returns None."""
        self._beginning = True
        try:
            catalog = begin()
            if catalog is None:
                return None
            self._made += 1
            self._held[self._made] = HourRows.of(catalog.record.hours)
            return catalog, self._made
        finally:
            self._beginning = False

    def let_go(self, number: int) -> None:
        """Release the pin of this number. The next checkpoint removes the directories that only this pin held."""
        self._held.pop(number, None)

    def removable(self, hours: Iterable[Directory]) -> list[Directory]:
        """Note directories that the newest checkpoint does not name. Return all noted directories that no pin holds,
        those of earlier calls too.

        The caller removes them, and calls `removed` for each.
        """
        self._kept |= set(hours)
        if self._beginning:
            return []
        held = list(self._held.values())
        return sorted(hour for hour in self._kept if not any(_names(rows, hour) for rows in held))

    def removed(self, hour: Directory) -> None:
        """Forget a directory that was noted by `removable` and is now removed."""
        self._kept.discard(hour)


def _names(hours: HourRows, hour: Directory) -> bool:
    lengths = hours.get(hour[0])
    return lengths is not None and lengths.generation == hour[1]


class Pin:
    """A checkpoint whose files stay until `release`. Store.pin makes it on the loop's thread. `prepare` comes before
    all reads."""

    def __init__(self, directory: Path, disk: Disk, group: int, held: tuple[CatalogPin, int], pins: Pins) -> None:
        self._directory = directory
        self._disk = disk
        self._group = group
        self._catalog, self._number = held
        self._pins = pins
        self._copy = directory / PINS / str(self._number)
        self._manifest: Manifest | None = None
        self._released = False
        self.applied_index = self._catalog.record.applied_index
        """The last entry in the checkpoint. A node that gets this checkpoint needs the journal from the next entry
        on."""

    @property
    def record(self) -> CheckpointRecord:
        """The record of the checkpoint that is pinned."""
        return self._catalog.record

    def without_catalog(self) -> "Pin":
        """End LMDB's transaction at once and return the same pin. For callers that need the hours alone."""
        self._catalog.close()
        return self

    @property
    def manifest(self) -> Manifest:
        """The manifest of the pinned checkpoint. `prepare` must have returned."""
        assert self._manifest is not None, "the pin is not prepared"
        return self._manifest

    def prepare(self) -> Manifest:
        """Copy LMDB and return the manifest. A second call returns the same one. Blocks, so it is for a thread, one
        call at a time. Raises DiskFailed or Corrupt: the process must end."""
        if self._manifest is None:
            assert not self._released, "the pin is released"
            for path in (self._copy.parent, self._copy):
                self._disk.make_directory(path)
            self._catalog.copy_to(self._copy)
            fd = self._disk.open_read(self._copy / "data.mdb")
            length = self._disk.size(fd)
            self._disk.close(fd)
            self._manifest = Manifest(self._catalog.cluster_id, self._group, self._catalog.record, length)
        return self._manifest

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Read bytes of a file of the manifest. Blocks. May run in any thread.

        Raises SnapshotRefused if the manifest lacks these bytes, Corrupt if the disk lacks them, DiskFailed.
        """
        length = self.manifest.lengths.get(name)
        if length is None or offset < 0 or not 0 < size <= length - offset:
            raise SnapshotRefused(f"no {size} bytes at {offset} of {name}: the manifest gives it {length}")
        path = self._copy / "data.mdb" if name == CATALOG_FILE else self._directory / name
        try:
            fd = self._disk.open_read(path)
        except FileNotFoundError as error:
            raise Corrupt(name, 0, "file", "missing", f"{length} bytes") from error
        try:
            data = self._disk.read(fd, size, offset)
        finally:
            self._disk.close(fd)
        if len(data) != size:
            raise Corrupt(name, offset, "length", offset + len(data), f"at least {offset + size}")
        return data

    def release(self) -> None:
        """Release the pin and remove its copy of LMDB. A second call does nothing. May run in any thread, once no
        thread reads from the pin."""
        if self._released:
            return
        self._released = True
        self._catalog.close()
        self._pins.let_go(self._number)
        self._disk.remove_tree(self._copy)


def checksum_of(data: bytes) -> int:
    """CRC32C of a piece's bytes. It travels with the piece, and stands in a backup's manifest."""
    return int(google_crc32c.value(data))
