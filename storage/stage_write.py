"""Writing what is staged: hours by the dozen, so that linking and sealing take no step per hour, only files do.

```
chunks  -- parts -->  18 hours  -- joined, linked, sealed at once -->  slices  -->  log, index, settle of each hour
```
The heads of an hour that is written again and again are kept from one time to the next: without them each time would
read all of its index. The writer takes them over from the hour and hands them back at the end of its run.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from storage.array import I64
from storage.chain import SECONDS, Heads, link_slots, seconds_of
from storage.format import Units, seal
from storage.hour_file import HourFiles
from storage.staging import Chunk, Chunks, joined, parts

_GROUP_HOURS: Final = (1 << 16) // SECONDS
"""Hours whose seconds have numbers of 16 bits together, which numpy sorts by radix."""

_GROUP_BYTES: Final = 8 << 20
"""Records and units after which a group ends, so that their copies stay small."""

OpenFiles = Callable[[int, int], HourFiles]
"""The files of an hour, by number and generation."""


@dataclass(slots=True)
class FrozenHour:
    """What is to be written of one hour: what its files hold, and what they are to hold."""

    number: int
    generation: int
    saved_units: int
    units: int
    log_end: int
    bytes: int  # of records and units
    saved_settles: int
    settles: int
    settle_rows: Chunks
    heads: Heads | None  # of the units on disk, if they are in memory; after the write of those then on disk


def write_staged(hours: Sequence[FrozenHour], chunks: Sequence[Chunk], open_files: OpenFiles) -> None:
    """Write units, records and settle records behind what the files hold. `hours` rise, and are all that `chunks` name.

    Raises Corrupt where an index on disk is damaged, DiskFailed; both final. Nothing is synced.
    """
    groups = list(_groups([hour for hour in hours if hour.units > hour.saved_units]))
    for group, part in zip(groups, parts(chunks, [group[0].number for group in groups]), strict=True):
        _write_units(group, joined(part), open_files)
    for hour in hours:
        if hour.settle_rows.arrays:
            files = open_files(hour.number, hour.generation)
            files.settle.write_rows(hour.settle_rows.joined_settles(), hour.saved_settles)
            files.close()


def _groups(hours: list[FrozenHour]) -> Iterator[list[FrozenHour]]:
    group: list[FrozenHour] = []
    filled = 0
    for hour in hours:
        if group and (len(group) == _GROUP_HOURS or filled >= _GROUP_BYTES):
            yield group
            group, filled = [], 0
        group.append(hour)
        filled += hour.bytes
    if group:
        yield group


def _write_units(group: list[FrozenHour], chunk: Chunk, open_files: OpenFiles) -> None:
    assert [hour.number for hour in group] == chunk.hours.tolist(), f"hours {chunk.hours} are staged"
    files = [open_files(hour.number, hour.generation) for hour in group]
    for hour, its in zip(group, files, strict=True):
        if hour.heads is None:
            hour.heads = read_heads(its, hour.saved_units)
    _link(group, chunk.units, chunk.rows)
    seal(chunk.units)
    rows, edges = chunk.rows.tolist(), chunk.edges.tolist()
    offsets = chunk.units["offset"][chunk.rows[:-1]].tolist()
    for place, (hour, its) in enumerate(zip(group, files, strict=True)):
        units = chunk.units[rows[place] : rows[place + 1]]
        assert hour.saved_units + len(units) == hour.units, f"{len(units)} units staged of hour {hour.number}"
        words = chunk.words[edges[place] : edges[place + 1]]
        its.log.write(words.view(np.uint8).data, offsets[place])
        its.index.write_rows(units, its.index.first + hour.saved_units)
        its.close()


def _link(group: list[FrozenHour], units: Units, rows: I64) -> None:
    """Link the units of all hours as if their seconds were those of one, and leave the heads at the last of them."""
    heads = [hour.heads for hour in group if hour.heads is not None]
    after, count = (np.concatenate([getattr(each, name) for each in heads]) for name in ("after", "count"))
    begins: I64 = np.arange(len(group)) * SECONDS
    slots = seconds_of(units["due_ms"]) + begins.repeat(np.diff(rows)).astype(np.uint16)
    link_slots(units, slots, after, count)
    for hour, begin in zip(group, begins.tolist(), strict=True):
        hour.heads = Heads(after[begin : begin + SECONDS].copy(), count[begin : begin + SECONDS].copy())


def read_heads(files: HourFiles, units: int) -> Heads:
    """The heads of the first `units` units on disk, by reading them all. Raises Corrupt."""
    heads = Heads()
    for _, rows in files.index.blocks(units):
        heads.absorb(rows)
    return heads
