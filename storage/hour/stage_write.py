"""Writes staged bytes, many hours at once. Units get their chain and checksum (linked, sealed) in one step for a group
of hours. Only the files are written hour by hour.

```
chunks  -- parts -->  18 hours  -- joined, linked, sealed at once -->  slices  -->  log, index, settle of each hour
```
Hours follow each other and are released when they are written. So memory follows the 18 hours at hand and not all
staged ones. The heads of a long hour are kept from one write to the next (heads_kept.py). Without them each write would
read all of its index.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from storage.file.hour_file import HourFiles
from storage.file.sync_pace import SyncPace
from storage.format.array import I64, U32
from storage.format.chain import SECONDS, Heads, absorb, link_slots, seconds_of
from storage.format.rows import seal
from storage.hour.body_write import write_bodies
from storage.hour.heads_kept import KEPT_UNITS_MIN, HeadsKept, used_heads
from storage.hour.staging import Chunk, Chunks, joined, parts

_GROUP_HOURS: Final = (1 << 16) // SECONDS
"""Hours whose seconds together have numbers of 16 bits, which numpy sorts by radix."""

_GROUP_BYTES: Final = 8 << 20
"""Bytes of records and units after which a group ends, so that their copies stay small."""

_GROUPS_CUT: Final = 64
"""Groups for which chunks are cut at a time."""

OpenFiles = Callable[[int, int, int], HourFiles]
"""Opens the files of an hour, by number, generation and global_index of the first unit."""


@dataclass(slots=True)
class FrozenHour:
    """The staged part of one hour. `saved_units` and `saved_settles` count what is in its files before the staged part
    is written. `units` is the number of its units afterwards."""

    number: int
    generation: int
    first: int
    saved_units: int
    units: int
    bytes: int  # of records and units
    saved_settles: int
    settle_rows: Chunks | None


def write_staged(
    hours: Iterable[FrozenHour],
    chunks: Sequence[Chunk],
    open_files: OpenFiles,
    heads: HeadsKept,
    pace: SyncPace | None = None,
) -> None:
    """Write units, records and settle records behind the bytes in the files. `hours` rise, and are all that `chunks`
    name.

    In a thread `pace` lets written bytes flow to the device, and the thread pauses for the loop. Raises Corrupt if
    an index on disk is damaged, DiskFailed; both final. Nothing is synced.
    """
    groups, pause = _groups(hours), _pause_of(pace)
    while cut := list(islice(groups, _GROUPS_CUT)):
        grown = [[hour for hour in group if hour.units > hour.saved_units] for group in cut]
        grown = [group for group in grown if group]
        if grown:
            firsts, end = [group[0].number for group in grown], grown[-1][-1].number + 1
            for group, part in zip(grown, parts(chunks, firsts, end, pause), strict=True):
                _write_units(group, joined(part), open_files, heads, pace)
        settled = [hour for group in cut for hour in group if hour.settle_rows is not None]
        for place, hour in enumerate(settled):
            if place % _GROUP_HOURS == 0:
                pause()
            _write_settles(hour, open_files, pace)


def _pause_of(pace: SyncPace | None) -> Callable[[], None]:
    """The function that makes a thread pause for the loop. Without a pace, it does nothing: then the loop itself
    writes, and a pause would only delay it."""
    return (lambda: None) if pace is None else pace.pause


def read_ahead(
    hours: Iterable[FrozenHour], open_files: OpenFiles, heads: HeadsKept, pace: SyncPace | None = None
) -> None:
    """Read and keep the heads of hours that become near soon and have nothing staged. A thread gives its `pace`, and
    with it the call pauses for the loop."""
    pause = _pause_of(pace)
    for hour in hours:
        pause()
        following = hour.first + hour.units
        if hour.units < KEPT_UNITS_MIN or heads.get(hour.number, following) is not None:
            continue
        files = open_files(hour.number, hour.generation, hour.first)
        found = Heads()
        for _, units in files.index.blocks(hour.units):
            found.absorb(units)
        files.close()
        heads.keep(hour.number, used_heads(found.after, found.count, following))


def _groups(hours: Iterable[FrozenHour]) -> Iterator[list[FrozenHour]]:
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


def _write_settles(hour: FrozenHour, open_files: OpenFiles, pace: SyncPace | None) -> None:
    assert hour.settle_rows is not None
    files = open_files(hour.number, hour.generation, hour.first)
    files.settle.write_rows(hour.settle_rows.joined_settles(), hour.saved_settles, pace)
    files.close()


def _write_units(
    group: list[FrozenHour], chunk: Chunk, open_files: OpenFiles, heads: HeadsKept, pace: SyncPace | None
) -> None:
    assert [hour.number for hour in group] == chunk.hours.tolist(), f"hours {chunk.hours} are staged"
    files = [open_files(hour.number, hour.generation, hour.first) for hour in group]
    after, count = np.zeros(len(group) * SECONDS, np.uint32), np.zeros(len(group) * SECONDS, np.uint32)
    for place, (hour, its) in enumerate(zip(group, files, strict=True)):
        if hour.saved_units:
            seconds = slice(place * SECONDS, (place + 1) * SECONDS)
            _read_heads(hour, its, heads, after[seconds], count[seconds])
    begins: I64 = np.arange(len(group)) * SECONDS
    slots = seconds_of(chunk.units["due_ms"]) + begins.repeat(np.diff(chunk.rows)).astype(np.uint16)
    link_slots(chunk.units, slots, after, count)
    seal(chunk.units)
    rows, edges = chunk.rows.tolist(), chunk.edges.tolist()
    offsets = chunk.units["offset"][chunk.rows[:-1]].tolist()
    for place, (hour, its) in enumerate(zip(group, files, strict=True)):
        units = chunk.units[rows[place] : rows[place + 1]]
        assert hour.saved_units + len(units) == hour.units, f"{len(units)} units staged of hour {hour.number}"
        words = chunk.words[edges[place] : edges[place + 1]]
        write_bodies(its, words, offsets[place], units, hour.first + hour.saved_units, pace)
        its.close()
        if hour.units >= KEPT_UNITS_MIN:
            seconds = slice(place * SECONDS, (place + 1) * SECONDS)
            heads.keep(hour.number, used_heads(after[seconds], count[seconds], hour.first + hour.units))


def _read_heads(hour: FrozenHour, files: HourFiles, heads: HeadsKept, after: U32, count: U32) -> None:
    """Fill in the heads of the units on disk, [3600] each: the kept heads, or from a read of all these units."""
    used = heads.get(hour.number, hour.first + hour.saved_units)
    if used is not None:
        after[used.seconds], count[used.seconds] = used.after, used.count
        return
    for _, units in files.index.blocks(hour.saved_units):
        absorb(units, after, count)
