"""A checkpoint on its way: it writes staged hours, syncs all files, then commits one transaction.

```
loop     Store.begin_checkpoint   freezes staged chunks, the files' lengths and the catalog's changes: one moment
thread   run                      0 remove leftovers, look at lengths   1 write what was staged, then states files,
                                  all of it in a trickle (file/sync_pace.py)
                                  2 sync   3 commit the catalog with the record   4 remove
loop     finish                   forget what was staged; reads of the catalog move on
```

```
| stopped | found at the next start | recovery |
|---|---|---|
| before 3 is done | the old record; longer, perhaps torn files; hours it does not name | cut, leftovers, replayed |
| in or after 4 | the new record; perhaps an unlinked hour's directory | a leftover |
```

Step 0 is a piece of the work that a start leaves to checkpoints. It removes leftovers (unlinked_hours.py) and cuts
files to their lengths (hour/open_hour.py). Leftovers go first. After a kill the checkpoint writes their hours again, so
it removes as many as these bytes need disk space.

Only `run` is for another thread than the loop's. It reads the frozen chunks, which never change once staged. It has
file descriptors of its own, and writes to LMDB through Frozen.commit. It touches nothing else of the store, so the loop
may append, settle and read meanwhile.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from storage.catalog.catalog import Frozen
from storage.checkpoint.frozen_hours import FrozenHours
from storage.checkpoint.pin import Pins
from storage.checkpoint.unlinked_hours import Directory
from storage.file.disk import Disk
from storage.file.hour_file import directory_name
from storage.file.kept_free import is_short
from storage.file.sync_pace import SyncPace
from storage.hour.open_hour import HourOpening
from storage.hour.stage_write import read_ahead, write_staged

_SYNC_EACH_MAX: Final = 8
"""Up to this many hours are synced one by one. For more, one syncfs of the file system costs less."""


class CheckpointJob:
    """One checkpoint. Store.begin_checkpoint makes it. The caller then calls `run` once in a thread, and `finish` on
    the loop."""

    def __init__(
        self,
        disk: Disk,
        hours: Path,
        frozen: FrozenHours,
        opening: HourOpening,
        catalog: Frozen,
        pins: Pins,
        finished: Callable[["CheckpointJob"], None],
    ) -> None:
        self._disk = disk
        self._directory = hours
        self.hours = frozen
        self._opening = opening
        self._open_files = opening.open
        self.catalog = catalog
        self._pins = pins
        self._finished = finished

    def run(self) -> None:
        """Write and sync the files, commit the catalog, remove directories. Blocks for as long as the disk takes.
        Raises DiskFailed or Corrupt: the process must end."""
        self._make_room()
        self._opening.look_on(*self.hours.there)
        pace = SyncPace(self._disk)
        write_staged(self.hours.staged, self.hours.chunks, self._open_files, self.hours.heads, pace)
        self.hours.states.extend(self.hours.rows, self.hours.touched, self._open_files)
        self._sync(self.hours.synced, pace)
        self.hours.prepare()
        self.catalog.commit(self.hours.lengths)
        read_ahead(self.hours.ahead, self._open_files, self.hours.heads, pace)
        for unlinked in self._pins.removable(self.hours.unlinked.unlinked):
            self._remove(unlinked)
            self._pins.removed(unlinked)
        for path in self.hours.states.removed:
            if path not in self.hours.states.used and self._disk.exists(path):
                self._disk.unlink(path)

    def finish(self) -> None:
        """Tell the store that the checkpoint is durable. Call it on the loop's thread after `run` has returned."""
        self._finished(self)

    def _make_room(self) -> None:
        """Remove this checkpoint's piece of the leftovers. Remove further leftovers while the disk lacks space for the
        staged bytes."""
        unlinked, needed = self.hours.unlinked, self.hours.staged_bytes
        for leftover in unlinked.leftovers:
            self._remove(leftover)
        for leftover in unlinked.rest:
            if not is_short(self._directory, self._disk, needed):
                break
            self._remove(leftover)
            unlinked.more += 1

    def _remove(self, directory: Directory) -> None:
        self._disk.remove_tree(self._directory / directory_name(*directory))
        self.hours.unlinked.removed.append(directory)

    def _sync(self, hours: list[tuple[int, int, int]], pace: SyncPace) -> None:
        if not hours:
            return
        for hour in [hour for hour in hours if hour[0] < self.hours.near_end][-_SYNC_EACH_MAX:]:
            files = self._open_files(*hour)
            files.drain(pace)  # near hours and those just before: the loop wrote these bytes
            files.close()
        if len(hours) > _SYNC_EACH_MAX:
            fd = self._disk.open_read(self._directory)
            self._disk.syncfs(fd)
            self._disk.close(fd)
            return
        for hour in hours:
            files = self._open_files(*hour)
            files.sync()
            files.close()
        self._disk.fsync_directory(self._directory)
