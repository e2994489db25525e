"""Exports the data for the reconciliation from a data directory: hours without bodies, and the delivery log.

```
for each UTC day, oldest first
    files grow by what is new of them       behind the lengths that the manifest names
    syncfs                                  all of it is durable, names too
    MANIFEST.json.part, synced, renamed     from here on it counts
nodes/<node>.json.part, synced, renamed     the whole export stands for this checkpoint
```

```
| stopped | found at the next run | so |
|---|---|---|
| while files grow | longer files than the manifest says, files it does not list | cut to it, written again |
| before a rename | the old manifest, perhaps a `.part` | likewise; the `.part` is begun anew |
| after it | the new manifest | nothing more to do for that day |
```

The export follows from the applied entries alone. So a run may be repeated, stopped anywhere, or made from a directory
that is behind. Files never shrink, and a run with nothing new writes nothing. If an exported row differs from the
directory's, the run stops and names it, because the two are not of one cluster's log. Rows and record headers are
checked as they are read. A delivery log is copied as it stands, for it is written and not synced; its readers check its
rows.

A fault of the export's directory is ExportRefused and no fault of the node, because that may be on any disk.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from storage.catalog.hour_lengths import HourLengths
from storage.export.deliveries import LogGrowth
from storage.export.growing_file import ExportRefused, at_place
from storage.export.hour import HourGrowth
from storage.export.manifest import (
    FORMAT,
    MANIFEST,
    NODES,
    PART,
    Document,
    ExportedDeliveries,
    ExportedHour,
    ExportedNode,
    Partition,
    day_of,
    delivery_name,
    encode,
    node_file,
    partition_folder,
    read_document,
)
from storage.export.source import ExportSource
from storage.file.delivery_file import DeliveryFile, delivery_files
from storage.file.disk import Disk
from storage.file.hour_file import HourFiles
from storage.format.rows import HEADER_SIZE, UNIT, Corrupt, FormatRefused, check_rows

__all__ = ["Export", "ExportRefused", "Exported"]

Hours = dict[tuple[int, int], ExportedHour]
"""The manifest's entries by hour and global_index of the first unit."""
Logs = dict[str, ExportedDeliveries]
"""The manifest's entries by name of the delivery file."""


@dataclass(slots=True)
class Exported:
    """The work of a run, counted in hours, rows and bytes, and which hours and delivery files the export has after
    it."""

    hours: int = 0
    units: int = 0
    settles: int = 0
    deliveries: int = 0
    bytes: int = 0
    covered: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """The source's exported hours: (hour, first) -> exported (units, settles)."""
    complete: set[DeliveryFile] = field(default_factory=set)
    """Files of the source's delivery log that are exported and grow no more."""


class Export:
    """One run, which exports what the export of a node lacks. `steps` or `run` does it, `done` counts its work. Blocks,
    so it is for a thread."""

    def __init__(
        self, source: ExportSource, directory: Path, disk: Disk, *, beside: Path | None = None, reserve_bytes: int = 0
    ) -> None:
        """`reserve_bytes` stay free if the export is on the file system of `beside`, a node's data directory."""
        self._source = source
        self._directory = directory
        self._disk = disk
        self._beside, self._reserve_bytes = beside, reserve_bytes
        self.done = Exported()

    def run(self) -> Exported:
        """Run all steps and return `done`."""
        for _ in self.steps():
            pass
        return self.done

    def steps(self) -> Generator[int, None, None]:
        """Export what is new. Yield the number of bytes of each step, so that a caller can pause between the steps.

        Raises ExportRefused for a fault of the export's directory; Corrupt, FormatRefused or DiskFailed for one of the
        source.
        """
        lock = self._begin()
        try:
            newest = None
            hours_of: dict[str, dict[int, HourLengths]] = {}
            files_of: dict[str, list[DeliveryFile]] = {}
            for hour, lengths in self._source.hours.items():
                hours_of.setdefault(day_of(hour), {})[hour] = lengths
            for newest in delivery_files(self._source.path / "deliveries", self._disk):
                files_of.setdefault(day_of(newest.hour), []).append(newest)
            for day in sorted(hours_of.keys() | files_of.keys()):
                yield from self._day(day, hours_of.get(day, {}), files_of.get(day, []), newest)
            self._say()
        finally:
            self._disk.close(lock)

    def _begin(self) -> int:
        """Make the export's directory if it is missing, and lock it: one run at a time for each node. Return the
        lock."""
        node = self._source.word.node
        with at_place():
            for place in (*reversed(self._directory.parents), self._directory, self._directory / NODES):
                self._make(place)
            lock = self._disk.open_write(self._directory / NODES / f"{node}.lock")
            if not self._disk.lock(lock):
                self._disk.close(lock)
                raise ExportRefused(f"{node} is being exported to {self._directory} by another process")
        return lock

    def _make(self, place: Path) -> None:
        if not self._disk.exists(place):
            self._disk.make_directory(place)
            self._disk.fsync_directory(place.parent)

    # one day

    def _day(
        self, day: str, hours: dict[int, HourLengths], files: list[DeliveryFile], newest: DeliveryFile | None
    ) -> Iterator[int]:
        word = self._source.word
        folder = partition_folder(self._directory, day, word.node)
        old = self._known(folder / MANIFEST, Partition)
        known: Hours = {(entry.hour, entry.first): entry for entry in old.hours} if old else {}
        logs: Logs = {entry.name: entry for entry in old.deliveries} if old else {}
        growths = [growth for hour in sorted(hours) if (growth := self._growth(hour, hours[hour], known, folder))]
        self._refuse_without_room(sum(growth.bytes_new for growth in growths if growth.grows))
        for growth in growths:
            if growth.grows:
                yield from self._grow(growth, folder)
            entry = growth.entry
            known[entry.hour, entry.first] = entry
            self.done.covered[entry.hour, entry.first] = (entry.units, entry.settles)
        for file in files:
            yield from self._grow_log(file, logs, folder, complete=file != newest)
        if not known and not logs:
            return
        new = Partition(
            format=FORMAT,
            cluster_id=word.cluster_id,
            group=word.group,
            node=word.node,
            dt=day,
            hours=tuple(known[at] for at in sorted(known)),
            deliveries=tuple(logs[name] for name in sorted(logs)),
        )
        if new != old:
            self._sync()
            self._replace(folder / MANIFEST, new)
        self.done.complete |= {file for file in files if file != newest}

    def _known(self, path: Path, kind: type[Document]) -> Document | None:
        """The document that an earlier run wrote, None if there is none. Raises ExportRefused if it is of another
        cluster, or cannot be read."""
        word = self._source.word
        try:
            with at_place():
                found = read_document(path, kind, self._disk)
        except (Corrupt, FormatRefused) as error:
            raise ExportRefused(f"{error}: remove its directory to export again what the node still has") from error
        if found is not None and (found.cluster_id, found.group) != (word.cluster_id, word.group):
            raise ExportRefused(
                f"{self._directory} holds {found.node} of cluster {found.cluster_id}, group {found.group}; this is "
                f"cluster {word.cluster_id}, group {word.group}: export to another directory"
            )
        return found

    def _growth(self, hour: int, lengths: HourLengths, known: Hours, folder: Path) -> HourGrowth | None:
        """The object that exports the new rows of an hour. None if the hour has no units, or was unlinked since the
        checkpoint was read."""
        files = HourFiles(
            self._disk,
            self._source.path / "hours",
            hour,
            group=self._source.word.group,
            cluster_id=self._source.cluster_id,
            generation=lengths.generation,
        )
        try:
            if not lengths.units:
                return None
            row = np.frombuffer(files.index.read(UNIT.itemsize, HEADER_SIZE), UNIT)
            check_rows(row, files.index.name, np.zeros(1, np.int64))
        except Corrupt:
            if self._disk.exists(files.directory):
                raise
            return None
        finally:
            files.close()
        first = int(row["global_index"][0])
        return HourGrowth(hour, files.beginning_at(first), lengths, known.get((hour, first)), folder, self._disk)

    def _grow(self, growth: HourGrowth, folder: Path) -> Iterator[int]:
        with at_place():
            for place in (folder.parent, folder):
                self._disk.make_directory(place)
        try:
            for step in growth.steps():
                self.done.bytes += step
                yield step
        except Corrupt:
            if self._disk.exists(growth.directory):
                raise
            return  # unlinked since the checkpoint was read; the manifest stays as it is
        self.done.hours += 1
        self.done.units += growth.units
        self.done.settles += growth.settles

    def _grow_log(self, file: DeliveryFile, logs: Logs, folder: Path, *, complete: bool) -> Iterator[int]:
        """Export the new rows of a file of the delivery log, and update its entry in `logs`. If the node has removed
        the file, its exported part stays."""
        name = delivery_name(file, self._source.store_id)
        growth = LogGrowth(self._source.path / "deliveries" / file.name, folder, name, logs.get(name), self._disk)
        for step in growth.steps():
            self.done.bytes += step
            yield step
        self.done.deliveries += growth.rows_new
        if growth.file.bytes:
            logs[name] = ExportedDeliveries(
                name=name,
                store_id=self._source.word.store_id,
                rows=growth.rows,
                bytes=growth.file.bytes,
                crc32c=growth.file.crc32c,
                complete=complete,
            )

    def _refuse_without_room(self, needed: int) -> None:
        with at_place():
            free = self._disk.free_bytes(self._directory)
            shared = self._beside is not None and self._disk.same_file_system(self._directory, self._beside)
        reserve = self._reserve_bytes if shared else 0
        if needed > free - reserve:
            kept = f" and keeps {reserve} of them for the node" if reserve else ""
            raise ExportRefused(f"{self._directory} has {free} bytes free{kept}, a day's export needs {needed}")

    # documents

    def _say(self) -> None:
        """Write the node's document for this checkpoint, unless the export has one for a later checkpoint."""
        word = self._source.word
        path = node_file(self._directory, word.node)
        old = self._known(path, ExportedNode)
        if old is None or old.applied_index <= word.applied_index:
            self._replace(path, word)

    def _sync(self) -> None:
        """Make all written files durable, and their names."""
        with at_place():
            fd = self._disk.open_read(self._directory)
            try:
                self._disk.syncfs(fd)
            finally:
                self._disk.close(fd)

    def _replace(self, path: Path, document: Partition | ExportedNode) -> None:
        """Replace a document. It is durable at return; after a fault the old one is still there."""
        part = path.with_name(path.name + PART)
        with at_place():
            fd = self._disk.open_write(part)
            try:
                self._disk.truncate(fd, 0)
                self._disk.write(fd, encode(document), 0)
                self._disk.fdatasync(fd)
            finally:
                self._disk.close(fd)
            self._disk.rename(part, path)
            self._disk.fsync_directory(path.parent)
