"""A group's messages on disk: the facade to which the state machine applies, and from which the dispatcher reads.

The store is a function of the applied entries. It reads no clock and draws nothing. Its files depend on the order of
commands alone, not on the time of a flush. All methods but those of CheckpointJob are for the loop's thread.
DiskFailed, Corrupt and FormatRefused are final for the process.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from storage.catalog.catalog import Catalog
from storage.catalog.catalog_file import require_begun
from storage.catalog.checkpoint_record import NOTHING, CheckpointRecord
from storage.catalog.hour_lengths import HourLengths
from storage.checkpoint.hour_set import STAGED_BYTES_SOFT, HourSet
from storage.checkpoint.job import CheckpointJob
from storage.checkpoint.pin import PINS, Pin, Pins
from storage.checkpoint.recovery import recover
from storage.file.disk import Disk
from storage.format.array import I64, U8, U16, U32, U64, Mask
from storage.format.batches import LeasedColumns, SettleBatch, StateColumns, UnitBatch
from storage.format.chain import SECONDS
from storage.format.pieces import Pieces
from storage.format.position import HOUR_MAX, INDEX_BITS, INDEX_MAX, indexes_of
from storage.format.rows import BY_FAILURE, SETTLE, UNIT, Settles, Units, put_rows, select_rows, take_rows
from storage.format.states import IS_SETTLED, OPEN_STANDINGS, UNKNOWN
from storage.hour.batch_by_hour import BatchByHour
from storage.hour.hour import Hour
from storage.hour.hour_table import NOT_READ, Extents, HoursHeld, HourTable
from storage.hour.open_hour import HourOpening
from storage.hour.staging import Stage
from storage.query.moves import born_in_state, history, homes, last_places, locate
from storage.query.newest_settle import acked_before, before_newest, newest
from storage.query.selection import Selection
from storage.query.states import are_known, state_only, states
from storage.record.record import Record, patch
from storage.record.record_rows import FEW, RecordRows
from storage.wheel.slot import DueUnits
from storage.wheel.slot_read import SlotRead, hour_pending

__all__ = ["STAGED_BYTES_SOFT", "LeasedColumns", "SettleBatch", "DueUnits", "StateColumns", "Store", "UnitBatch"]


class Store:
    """The hours of a group, the catalog beside them, and their checkpoints. Open with `Store.open`."""

    def __init__(self, directory: Path, disk: Disk, group: int, catalog: Catalog) -> None:
        self._disk = disk
        self.group = group
        self._directory = directory / "hours"
        self.catalog = catalog
        self.checkpoint: CheckpointRecord | None = catalog.record
        """The last durable checkpoint. None before the first."""
        genesis, at = catalog.genesis, self.checkpoint or NOTHING
        named, firsts, leftovers = recover(self._directory, at.hours, catalog.first_index, disk)
        disk.remove_tree(directory / PINS)
        self._pins, self._opening = Pins(), HourOpening(disk, self._directory, group, named, firsts)
        self._opening.cluster_id = genesis.cluster_id if genesis else None
        self._hours = HourSet(HourTable(named, firsts), Stage(), self._opening.open, catalog.first_index, leftovers)
        self.applied_index, self.applied_term, self.level = at.applied_index, at.applied_term, at.level
        self.doubt = at.doubt
        """Index, term, level (storage/format/level.py) and doubt (catalog/doubt.py) as of the newest applied entry."""

    @classmethod
    def open(cls, directory: Path, *, disk: Disk, group: int = 0) -> "Store":
        """Open the store, cut back to the last checkpoint, or begin an empty one.

        Raises Corrupt, FormatRefused or DiskFailed.
        """
        hours, catalog_path = directory / "hours", directory / "catalog"
        disk.make_directory(hours)
        if disk.list_directory(hours):
            require_begun(catalog_path / "data.mdb", disk)
        catalog = Catalog.open(catalog_path, disk)
        try:
            return cls(directory, disk, group, catalog)
        except BaseException:
            catalog.close()
            raise

    def close(self) -> None:
        """Close all files. The journal has what no checkpoint has."""
        self._hours.close()
        self.catalog.close()

    @property
    def cluster_id(self) -> bytes | None:
        """The id of the cluster, 16 bytes. None before Genesis is applied."""
        return self._opening.cluster_id

    def found(self, cluster_id: bytes) -> None:
        """Set the cluster's id, 16 bytes, for every file's header. The catalog's genesis row keeps it."""
        assert self.cluster_id in (None, cluster_id), "the cluster is already founded"
        self._opening.cluster_id = cluster_id

    @property
    def unit_count(self) -> int:
        """Units of all hours that are not unlinked, settled ones too."""
        return self._hours.units

    @property
    def staged_bytes(self) -> int:
        """Memory in bytes of what waits for a checkpoint. Past STAGED_BYTES_SOFT a checkpoint is due."""
        return self._hours.staged_bytes

    @property
    def hours_held(self) -> HoursHeld:
        """Counts of the hours in memory. They depend on the near and used hours, not on the number of units."""
        return self._hours.held

    @property
    def left_by_start(self) -> int:
        """The number of leftovers still to remove and of hours' files still to check. Each checkpoint does some."""
        return self._hours.leftovers + self._opening.unlooked

    # apply

    def append(self, batch: UnitBatch) -> U64:
        """Append units and return their positions in row order. The due hour decides where, the order within is kept.

        With `homes` they are messages that move here from another position. Their ids and times of creation stay.
        """
        if not len(batch):
            return np.empty(0, np.uint64)
        arranged = BatchByHour.of(batch)
        assert arranged.hours[0] >= 0, f"hour {arranged.hours[0]}"
        assert arranged.hours[-1] <= HOUR_MAX, f"hour {arranged.hours[-1]}"
        following, log_ends = self._hours.begin(arranged.hours)
        index = arranged.indexes(following)
        starts = patch(
            arranged.words,
            arranged.columns.size,
            group=self.group,
            hour=arranged.hour,
            global_index=index,
            topic=arranged.columns.topic,
            created_ms=arranged.columns.created_ms,
            homes=arranged.columns.homes,
        )
        units = arranged.units(index, starts, log_ends)
        self.catalog.written.rows(units, arranged.words)
        self._hours.append(arranged, units, starts)
        self._hours.bound()
        return arranged.restore((arranged.hour << INDEX_BITS | index).view(np.uint64))

    def settle(self, batch: SettleBatch) -> None:
        """Append settle records of units, all of which must exist. The last record of a unit decides its state."""
        rows = np.zeros(len(batch), SETTLE)
        rows["global_index"] = indexes_of(batch.position)
        for name in ("at_ms", "when", "term", "attempt", "node", "code", "subscription", "what"):
            rows[name] = getattr(batch, name)
        self.catalog.written.rows(batch.position, rows)
        for hour, which, _ in self._hours.existing(batch.position):
            part = rows[which] if isinstance(which, slice) else take_rows(rows, which)
            self._hours.settled(hour, hour.settle(part))
        self._hours.bound()

    # lookups

    def states(self, positions: U64) -> StateColumns:
        """State of each unit, in order; UNKNOWN for a missing unit."""
        return states(self._hours, positions)

    def state_only(self, positions: U64) -> U8:
        """The states without attempt, term and end of the lease. For units that ended long ago nothing is read."""
        return state_only(self._hours, positions)

    def are_known(self, positions: U64) -> bool:
        """True if `state_only` of these units reads no file, because the states of their whole hours are in memory."""
        return are_known(self._hours, positions)

    def units(self, positions: U64) -> Units:
        """Index units, dtype UNIT, in order. All must exist. A staged one's pre_global_index is chain.NOT_LINKED."""
        result = np.empty(len(positions), UNIT)
        for hour, rows, at in self._hours.existing(positions):
            found = hour.unit_rows(at)
            if isinstance(rows, slice):  # all of one hour: a copy of rows is the dearest part
                return found
            put_rows(result, rows, found)
        return result

    def records(self, positions: U64, units: Units | None = None) -> list[Record]:
        """The records of these units, in order. All must exist. `units` are the index units if the caller has them."""
        found: dict[int, Record] = {}
        for hour, rows, at in self._hours.existing(positions):
            places = range(len(at)) if isinstance(rows, slice) else rows.tolist()
            found.update(zip(places, hour.records(at, select_rows(units, rows)), strict=True))
        return [found[place] for place in range(len(positions))]

    def record_rows(self, positions: U64, units: Units | None = None) -> RecordRows:
        """The records of these units as columns, in order. All must exist. See `records`."""
        if len(positions) <= FEW:
            return RecordRows.of(self.records(positions, units))
        hours = self._hours.existing(positions)
        parts = [(rows, hour.record_rows(at, select_rows(units, rows))) for hour, rows, at in hours]
        return RecordRows.joined(parts, len(positions))

    def newest(self, positions: U64) -> Settles:
        """The newest settle record of each unit, in order, dtype SETTLE. `what` is 0 if there is none."""
        return newest(self._hours, positions)

    def before_newest(self, positions: U64) -> Settles:
        """As `newest`, but the settle record of each unit before its newest one. `what` is 0 if there is none."""
        return before_newest(self._hours, positions)

    def acked_before(self, positions: U64, term: U32, attempt: U16) -> Mask:
        """True for units that an ack of this hand-over ended once, even if they have newer records."""
        return acked_before(self._hours, positions, term, attempt)

    def settled_at(self, home: int) -> int | None:
        """When a message was settled for good, ms. None if it is not yet. 0 if its home is unlinked: long ago."""
        at = np.array([home], np.uint64)
        if (state := int(self.states(at).state[0])) == UNKNOWN:
            return 0
        return int(self.newest(at)["at_ms"][0]) if IS_SETTLED[state] else None

    def cancel_priors(self, positions: U64) -> U16:
        """The code of each cancelled unit's end, which tells of the hand-overs before it."""
        codes: U16 = self.newest(positions)["code"] & np.uint16(BY_FAILURE - 1)
        return codes

    # moves

    def locate(self, homes: U64) -> U64:
        """The positions where the messages born at `homes` live, in order: its home for one that is not forwarded."""
        return locate(self._hours, homes)

    def homes(self, places: U64) -> U64:
        """The homes of the messages that stand here, in order. If no hour holds a moved unit: `places` itself."""
        return homes(self._hours, places)

    def last_places(self, homes: U64) -> U64:
        """The newest places of the messages born at these positions, in order, ended or not. A message that was never
        moved gives its home. storage.format.position.GONE stands for an unlinked place."""
        return last_places(self._hours, homes)

    def last_place(self, home: int) -> int:
        """The newest place of the message born at `home`. See `last_places`."""
        return int(self.last_places(np.array([home], np.uint64))[0])

    def history(self, home: int) -> Pieces[Settles]:
        """The newest 500 settle records of the message born here, which must exist, by time. Each forward is followed
        by the records at its target. Ends and moves that places repeat are left out."""
        return history(self._hours, home)

    def born_in_state(self, first: int, end: int, state: int) -> U64:
        """The messages born at positions first <= p < end of one hour whose home is in this state, rising."""
        return born_in_state(self._hours, first, end, state)

    # slots

    def second(self, tick: int) -> DueUnits:
        """The pending units of one absolute second, in order of (due_ms, local_index)."""
        read = self.slot_read(tick)
        return read.run() if read else DueUnits.empty()

    def slot_read(self, tick: int) -> SlotRead | None:
        """`second` in two steps: this call, then `run` of its result, in any thread. None if there is no such hour."""
        hour = self._hours.use(tick // SECONDS)
        return SlotRead(hour, tick % SECONDS) if hour else None

    def due_seconds(self, hour: int) -> I64:
        """Absolute seconds of an hour that hold units, settled or not, ascending."""
        found = self._hours.use(hour)
        return np.flatnonzero(found.heads().count) + hour * SECONDS if found else np.empty(0, np.int64)

    def pending(
        self, hour: int, before_ms: int | None = None, topic: int | None = None, limit: int | None = None
    ) -> DueUnits:
        """The pending units of an hour in dispatch order: due before `before_ms`, of `topic`, the first `limit`."""
        found = self._use_open(hour)
        return hour_pending(found, before_ms, topic, limit) if found else DueUnits.empty()

    def leased(self, hour: int) -> LeasedColumns:
        """The leased units of an hour, by global_index."""
        found = self._use_open(hour)
        at = found.states().leased() if found else np.empty(0, np.int64)
        position = at.astype(np.uint64) | np.uint64(hour << INDEX_BITS)
        states = self.states(position)
        return LeasedColumns(position, states.lease_end_ms, states.term, states.attempt)

    def leased_piece(self, first: int, end: int) -> tuple[U64, int]:
        """The leased units of one hour from position `first` on, ascending, and where the look ended. That is `end`, or
        before it if a longer look would read much."""
        hour, base = first >> INDEX_BITS, first & INDEX_MAX
        found = self._use_open(hour)
        if found is None or not found.settles:
            return np.empty(0, np.uint64), end
        at, stop = found.states().leased_piece(base, base + end - first)
        return at.astype(np.uint64) | np.uint64(hour << INDEX_BITS), first + stop - base

    def selectable(self, hour: int, selection: Selection) -> Hour | None:
        """An hour for a count or a page of its messages. None if none of them can be selected."""
        if not selection.which.touches(hour) or not (self.open_units(hour) or selection.standings - OPEN_STANDINGS):
            return None
        return self._hours.find(hour)

    def is_linked(self, hour: Hour) -> bool:
        """True if an hour that was read still exists. If it was unlinked meanwhile, a missing file is no damage."""
        return self._hours.find(hour.number) is hour

    # hours

    def hour(self, hour: int) -> Hour | None:
        """An hour as an object, None if it does not exist. An hour that was begun anew is another object."""
        return self._hours.find(hour)

    def open_units(self, hour: int) -> int:
        """The number of pending and leased units of an hour, without a look at them."""
        found = self._hours.counters(hour)
        return found.unsettled - found.forwarded if found else 0

    def extents(self, hours: Sequence[int] | None = None) -> Extents:
        """The extents of these hours, or of all for None. Units may be added, or an hour is begun anew."""
        return self._hours.table.extents(hours)

    def span(self, hour: int) -> tuple[int, int]:
        """The positions of an hour's units: of the first, and behind the last."""
        found, base = self._hours.counters(hour), hour << INDEX_BITS
        return (base + found.first, base + found.first + found.units) if found else (base, base)

    def lengths(self, hour: int) -> HourLengths | None:
        """The lengths of an hour's files once all staged bytes are written. None if it does not exist."""
        return found.lengths if (found := self._hours.counters(hour)) else None

    def topics_from(self, hour: int, first: int) -> U32:
        """The topic of each unit of an hour, without its first `first` units."""
        found = self._hours.use(hour)
        rows = found.unit_rows(np.arange(found.first + first, found.next)) if found else np.empty(0, UNIT)
        topics: U32 = rows["topic"]
        return topics

    def hours(self, first: int = 0, end: int = HOUR_MAX + 1) -> list[int]:
        """The hours first <= hour < end that hold units, ascending."""
        return self._hours.table.numbers(first, end)

    def ended_hours(self, first: int = 0) -> list[int]:
        """The hours from `first` on that hold ended units, ascending."""
        return self._hours.table.ended_numbers(first)

    def open_hours(self, first: int = 0, last: int = HOUR_MAX) -> list[int]:
        """The hours from `first` to `last` that hold pending or leased units, ascending."""
        return self._hours.table.open_numbers(first, last)

    def unsettled(self, hour: int) -> int:
        """The number of units of an hour that are not settled for good, forwarded ones included."""
        return found.unsettled if (found := self._hours.counters(hour)) else 0

    def settled_ms(self, hour: int) -> int:
        """The time of the hour's last settle record, ms. 0 if there is none. The hour does not become warm."""
        found = self._hours.counters(hour)
        return 0 if found is None else self._hours.settled_ms(found)

    def settled_known(self, hour: int) -> bool:
        """True if `settled_ms` of this hour reads no file."""
        return (found := self._hours.counters(hour)) is None or found.settled_ms != NOT_READ

    def turn(self, now_hour: int) -> None:
        """Move the hour wheel to `now_hour`. Hours that became near are written and opened, others released."""
        self._hours.turn(now_hour)

    def begin_at(self, now_hour: int) -> None:
        """Make the first turn after a start. It also reads the heads of long hours that the next turns need."""
        self._hours.begin_at(now_hour)

    def unlink(self, hour: int) -> None:
        """Drop an hour, if it exists. Its directory goes when a checkpoint without it is durable. An unlinked hour may
        be begun again at once. Its units are numbered behind the former ones, whose positions stay unknown for good."""
        self.catalog.written.row(b"unlink", hour.to_bytes(4, "little"))
        found = self._hours.find(hour)
        if found is not None:
            self.catalog.set_first_index(hour, found.next)
        self._hours.unlink(hour)

    # checkpoint

    def begin_checkpoint(self, record: CheckpointRecord) -> CheckpointJob:
        """Begin a checkpoint of this moment. `record` is the state machine's part, to which the store adds the hours.

        The caller calls `job.run()` in a thread, then `job.finish()` on the loop. Only then may another begin.
        """
        frozen = self._hours.freeze()
        catalog = self.catalog.begin(record)
        return CheckpointJob(self._disk, self._directory, frozen, self._opening, catalog, self._pins, self._finish)

    def pin(self) -> Pin | None:
        """Pin the last durable checkpoint, so that a thread can read it. None before the first. Copies nothing."""
        held = self._pins.hold(self.catalog.pin)
        return None if held is None else Pin(self._directory.parent, self._disk, self.group, held, self._pins)

    def _finish(self, job: CheckpointJob) -> None:
        self.catalog.finish(job.catalog)
        self.checkpoint = self.catalog.record
        self._hours.thaw(job.hours)

    def _use_open(self, hour: int) -> Hour | None:
        return self._hours.use(hour) if self.open_units(hour) else None
