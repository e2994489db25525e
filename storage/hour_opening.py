"""Which files an hour's are, and where its numbers begin: known when it is begun or recovered, then to any thread."""

from collections.abc import Callable, Mapping
from pathlib import Path

from storage.checkpoint import HourLengths
from storage.disk import Disk
from storage.hour_file import HourFiles


class HourOpening:
    """Makes HourFiles. `first_index(hour)` is the catalog's, and asked on the loop's thread only: at an hour's begin,
    since it changes when the hour is unlinked while a checkpoint may still be writing it."""

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        group: int,
        first_index: Callable[[int], int],
        recovered: Mapping[int, HourLengths],
    ) -> None:
        self.cluster_id: bytes | None = None
        self._disk = disk
        self._directory = directory
        self._group = group
        self._first_index = first_index
        self._firsts = {(hour, lengths.generation): first_index(hour) for hour, lengths in recovered.items()}

    def begin(self, hour: int, generation: int) -> HourFiles:
        """Of an hour that is begun, perhaps again."""
        self._firsts[hour, generation] = self._first_index(hour)
        return self.open(hour, generation)

    def open(self, hour: int, generation: int) -> HourFiles:
        """Of one that was begun or recovered. In any thread."""
        assert self.cluster_id is not None, "no hour before genesis"
        return HourFiles(
            self._disk,
            self._directory,
            hour,
            group=self._group,
            cluster_id=self.cluster_id,
            generation=generation,
            first=self._firsts[hour, generation],
        )
