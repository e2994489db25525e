"""The newest state of each unit of an hour: a cache of the settle file, rebuilt from it alone. The last record wins.

The columns are dense, 19 bytes a unit. Acks come in batches for arbitrary units, and a vectorised look-up must not
search. Only hours in use have columns, and only as far as units have been settled. An hour without settle records costs
nothing.

```
unit   0 ............ 1,048,576 ............ 2,097,152 ....     counted from the hour's first one
       | block        | block                | block            columns of a million units: growing copies little
       | part | part | ...                                      131,072 units: released together
       | page | page | page | ...                               512 units: read together from states files
```
A checkpoint keeps states files of a large hour (files.py). Then a page is read when a unit of it is first asked for,
from those files and from the tail, the records behind them. Other pages cost nothing. A page in memory follows all
changes, as every page does without such files.

A page is kept until all units of its part have ended and the files cover that. Then only the states stay, one byte a
unit, and a look at other columns reads the page again. So memory follows the open units, not all units of the hour.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from storage.format.array import I64, U8, U32, U64
from storage.format.batches import StateColumns
from storage.format.chain import run_edges
from storage.format.position import INDEX_MAX
from storage.format.rows import Settles
from storage.format.states import FORWARDED, IS_OPEN, KEEPS_HOUR, LEASED, LEAVES, PENDING, RELEASED
from storage.state.block import BLOCK_UNITS, PART_UNITS, Block, Columns
from storage.state.file import PAGE_UNITS, Rows, page_bit
from storage.state.files import StateFiles
from storage.state.state_view import Newest, StateView, lacking

_LET_GO_MAX: Final = 32
"""Parts that one `rebase` releases at most: a quarter of a millisecond each."""
_PIECE_PAGES: Final = 32
"""Pages that one `leased_piece` reads at most. If no two are neighbours, that takes some ten milliseconds."""
_BLOCK_BITS: Final = BLOCK_UNITS.bit_length() - 1
_NO_FILES: Final = StateFiles([])


class States:
    """The states of an hour's units by global_index, of which `first` is the least. No settle record: pending."""

    def __init__(self, first: int = 0, files: StateFiles = _NO_FILES) -> None:
        self.first = first
        self._blocks: list[Block] = []
        self._files = files
        self.filed = files.end
        """The number of settle records that states files cover. More may have come since."""
        self._tail: Rows | None = None
        self._tail_end = 0
        # By page in files or tail. _read: all its columns are in memory. _known: its states are, as in all of _read.
        self._read = np.zeros(files.pages, np.bool_)
        self._known = self._read.copy()
        self._read_count = 0
        self._read_from = files.pages * PAGE_UNITS  # the pages of all units from this number on are in memory
        self.forwards = files.forwards
        """True if a unit was ever forwarded. Most hours have none, which saves the look."""

    # records and files

    def absorb(self, rows: Settles, first: int) -> None:
        """Add settle records, in file order, of which the first has ordinal `first`. If there are states files, call
        `link` before: it brings the pages of the units to memory."""
        if not len(rows):
            return
        at = self._relative(rows["global_index"])
        state = what = rows["what"]
        told = what == LEASED
        if what[what.argmax()] >= RELEASED:  # few batches have any
            forwarded = what == FORWARDED
            told |= forwarded
            self.forwards |= bool(forwarded.any())
            state = LEAVES[what]
        newest = np.arange(first + 1, first + 1 + len(rows), dtype=np.uint32)
        self._put(at, (state, rows["attempt"], rows["term"], rows["when"] * told, newest))

    def absorb_tail(self, rows: Rows, end: int, *, forwards: bool) -> None:
        """Add the newest row of each unit in the records behind the files, up to ordinal `end`, before any look-up."""
        assert not self._read_count, "a tail behind what was asked for"
        self._tail, self._tail_end = rows, end
        self.forwards |= forwards
        pages = int(rows["unit"][-1]) // PAGE_UNITS + 1 if len(rows) else 0
        if pages > len(self._read):
            self._read, self._known = np.zeros(pages, np.bool_), np.zeros(pages, np.bool_)
            self._read_from = pages * PAGE_UNITS

    def rebase(self, files: StateFiles) -> None:
        """Read pages from these files from now on. Release parts whose units have all ended in the records they cover.

        Pages with records behind the former files and tail are in memory already. Files that cover fewer records than
        the former ones are closed, and not used.
        """
        if files.end < self.filed:
            files.close()
            return
        self._files.close()
        self._files = files
        self.filed = files.end
        if files.end >= self._tail_end:
            self._tail = None
        more = np.ones(max(0, files.pages - len(self._read)), np.bool_)
        self._read, self._known = np.concatenate([self._read, more]), np.concatenate([self._known, more])
        left = _LET_GO_MAX
        for part in list(self._parts()):
            if left and self._has_ended(part, files.end):
                block, within = divmod(part, BLOCK_UNITS // PART_UNITS)
                self._blocks[block].let_go(within)
                self._read[_pages_of(part)] = False
                left -= 1
        unread = np.flatnonzero(~self._read)
        self._read_count = len(self._read) - len(unread)
        self._read_from = (int(unread[-1]) + 1) * PAGE_UNITS if len(unread) else 0
        if not len(unread):
            files.close()

    @property
    def reads_files(self) -> bool:
        """True if a page is in files and not in memory, or may be released and is then only in files."""
        return self.lazy or any(block.is_mapped for block in self._blocks)

    @property
    def ended(self) -> int:
        """The global index before which all units have ended or no look-up named them. Only states may be in memory."""
        pages = int(self._read.argmax()) if self._read_count else len(self._read)
        return self.first + pages * PAGE_UNITS

    def _parts(self) -> Iterator[int]:
        """Yield the numbers of the parts that may have other columns than the states in memory."""
        for part in range(len(self._blocks) * BLOCK_UNITS // PART_UNITS):
            read = self._read[_pages_of(part)]
            if not len(read) or read.any():
                yield part

    def _has_ended(self, part: int, settles: int) -> bool:
        """True if the part is mapped, and the first `settles` settle records settled all of its units for good."""
        number, within = divmod(part, BLOCK_UNITS // PART_UNITS)
        block, units = self._blocks[number], slice(within * PART_UNITS, (within + 1) * PART_UNITS)
        state = block.state[units]
        return (
            block.is_mapped
            and not any((state == kept).any() for kept in KEEPS_HOUR.nonzero()[0])  # a tenth of an index's time
            and bool(block.newest[units].max() <= settles)
        )

    @property
    def lazy(self) -> bool:
        """True if a look-up may have to read a page from files."""
        return self._read_count < len(self._read)

    @property
    def lacks_states(self) -> bool:
        """True if a look-up of the states alone may have to read a page from files."""
        return self.lazy and not self._known.all()

    @property
    def held(self) -> int:
        """The number of units whose columns are all in memory."""
        most = sum(block.reached for block in self._blocks)
        return self._read_count * PAGE_UNITS if self.lazy else most

    def close(self) -> None:
        """Close the states files."""
        self._files.close()

    # new records

    def link(self, rows: Settles, first: int) -> I64:
        """Fill in `previous` of new records before they are absorbed. `first` is the ordinal of rows[0].

        Return the units that they name, each once.
        """
        at = rows["global_index"].astype(np.int64)
        if not len((at[1:] <= at[:-1]).nonzero()[0]):  # most batches name each unit once, in order
            rows["previous"] = self.newest_at(at)
            return at
        order = at.argsort(kind="stable")
        ranked = at[order]
        starts = run_edges(ranked)[:-1]
        units = ranked[starts]
        previous = np.empty(len(at), np.int64)
        np.add(order[:-1], first + 1, out=previous[1:])
        previous[starts] = self.newest_at(units)
        rows["previous"][order] = previous
        return units

    def enter(self, rows: Settles, first: int) -> tuple[int, int]:
        """Link and absorb new records. Return how many more units are settled for good, and how many more are
        forwarded.

        A forwarded unit keeps the hour and is not open.
        """
        units = self.link(rows, first)
        kept, open_ = self._count(units)
        self.absorb(rows, first)
        kept_now, open_now = self._count(units)
        return kept - kept_now, (kept_now - open_now) - (kept - open_)

    # looks

    def at(self, indexes: I64) -> StateColumns:
        """States of the units with these global indexes, all of which exist."""
        state, attempt, term, when, _ = self._get(self._relative(indexes))
        if self.forwards:
            when *= state != FORWARDED
        return StateColumns(state, attempt, term, when)

    def state_at(self, indexes: I64) -> U8:
        """The state alone of each unit. It is in memory even for parts that were released."""
        at = self._relative(indexes)
        self._need(at[lacking(at, self._known)] // PAGE_UNITS)
        return self._in_memory(at, "state").astype(np.uint8)

    def places(self, indexes: I64, homes: U64) -> U64:
        """The places to which the units at these positions, with these global indexes, were forwarded. Others give
        their own position."""
        if not self.forwards:
            return homes
        state, _, _, when, _ = self._get(self._relative(indexes))
        return np.where(state == FORWARDED, when.view(np.uint64), homes)

    def newest_at(self, indexes: I64) -> U32:
        """1 + ordinal of the newest settle record of each unit, 0 if there is none."""
        at = self._relative(indexes)
        only = self._only(at)
        return self._get(at)[4] if only is None else only[0].newest[only[1]]

    def newest_of(self, indexes: I64) -> Newest:
        """Begin `newest_at` as of this moment. `run` of the result reads what is not in memory, in any thread."""
        at = self._relative(indexes)
        rows = lacking(at, self._read)
        files = self._files.again() if len(rows) else _NO_FILES
        return Newest(self._in_memory(at, "newest"), at[rows], rows, files, self._tail)

    def leased(self) -> I64:
        """Global indexes of the leased units, ascending."""
        return self._in_state(LEASED, 0, max(len(self._blocks) * BLOCK_UNITS, len(self._read) * PAGE_UNITS))

    def leased_piece(self, first: int, end: int) -> tuple[I64, int]:
        """Global indexes of the leased units from `first` on, ascending, and where the look ended.

        It ends before `end` if it would have to read more than _PIECE_PAGES pages.
        """
        low, high = max(0, first - self.first), max(0, end - self.first)
        cold = self._pages_with(LEASED, low, high)
        if len(cold) > _PIECE_PAGES:
            high = int(cold[_PIECE_PAGES]) * PAGE_UNITS
            end = self.first + high
        return self._in_state(LEASED, low, high), end

    def in_state(self, state: int, first: int, end: int) -> I64:
        """Global indexes of the units first <= index < end that are in this state, ascending."""
        low, high = max(0, first - self.first), end - self.first
        if state != PENDING:
            return self._in_state(state, low, high)
        return np.flatnonzero(self.copied(high)[low:] == PENDING) + self.first + low

    def copied(self, units: int) -> U8:
        """A copy of the states of the hour's first `units` units."""
        self._need(np.flatnonzero(~self._known))
        states = np.zeros(units, np.uint8)
        for number, block in enumerate(self._blocks):
            part = states[number * BLOCK_UNITS :][: len(block.state)]
            part[:] = block.state[: len(part)]
        return states

    def seen(self) -> StateView:
        """A view of the states for another thread, while this object goes on to change."""
        files = self._files.again() if self.lacks_states else _NO_FILES
        return StateView(self.first, [block.state for block in self._blocks], self._known.copy(), files, self._tail)

    def _in_state(self, state: int, low: int, high: int) -> I64:
        """Global indexes of the units first + low <= index < first + high in a state that settle records name."""
        self._need(self._pages_with(state, low, high))
        parts = [np.empty(0, np.int64)]
        for number, block in enumerate(self._blocks):
            base = number * BLOCK_UNITS
            start, stop = max(low - base, 0), min(high - base, len(block.state))
            if start < stop:
                parts.append(np.flatnonzero(block.state[start:stop] == state) + (self.first + base + start))
        return np.concatenate(parts)

    def _pages_with(self, state: int, low: int, high: int) -> npt.NDArray[np.intp]:
        """The pages of the units low <= number < high with this state in files or tail, whose states are not in
        memory."""
        wanted = np.zeros(len(self._read), np.bool_)
        bit = page_bit(np.array([state], np.uint8))
        for file in self._files.files:
            known = file.pages["states"][: len(wanted)]  # all pages behind are in memory
            wanted[: len(known)] |= (known & bit) > 0
        if self._tail is not None:
            wanted[self._tail["unit"][self._tail["state"] == state] // PAGE_UNITS] = True
        wanted &= ~self._known
        first, last = low // PAGE_UNITS, -(-high // PAGE_UNITS)
        return np.flatnonzero(wanted[first:last]) + first

    def _count(self, indexes: I64) -> tuple[int, int]:
        """Return how many of these units keep the hour, and how many are open."""
        at = self._relative(indexes)
        only = self._only(at)
        state = self._get(at)[0] if only is None else only[0].state[only[1]]
        return int(np.count_nonzero(KEEPS_HOUR.take(state))), int(np.count_nonzero(IS_OPEN.take(state)))

    # blocks and pages

    def _relative(self, indexes: npt.NDArray[np.integer]) -> I64:
        """The numbers of units, counted from the hour's first one. A unit below it belonged to an unlinked hour of the
        same number, and gets a number that no unit has."""
        at = indexes.astype(np.int64)
        return np.where(at < self.first, INDEX_MAX, at - self.first) if self.first else at

    def _only(self, at: I64) -> tuple[Block, I64] | None:
        """The block that has all of these units, in most hours the newest one, and their numbers in it.

        None if there is no such block, or no unit. The units are in memory afterwards.
        """
        if not len(at):
            return None
        low, high = int(at[at.argmin()]), int(at[at.argmax()])
        if low < self._read_from:
            self._need(at // PAGE_UNITS)
        number = low >> _BLOCK_BITS
        if number != high >> _BLOCK_BITS or number >= len(self._blocks):
            return None
        block = self._blocks[number]
        base = number * BLOCK_UNITS
        if high - base >= len(block.state):
            return None
        return block, at - base if base else at

    def _get(self, at: I64) -> Columns:
        only = self._only(at)
        if only is not None:
            block, within = only
            return block.get(within)
        found = Block.zeros(len(at))
        for number, rows in self._by_block(at):
            if number < len(self._blocks):
                block, within = self._blocks[number], at[rows] - number * BLOCK_UNITS
                known = np.flatnonzero(within < len(block.state))
                there = known if isinstance(rows, slice) else rows[known]
                found.put(there, block.get(within[known]))
        return found.columns

    def _put(self, at: I64, columns: tuple[npt.NDArray[np.generic], ...]) -> None:
        for number, rows in self._by_block(at):
            while number >= len(self._blocks):
                self._blocks.append(Block.mapped() if self._blocks else Block.zeros(min(1024, PART_UNITS)))
                if len(self._blocks) > 1:
                    self._blocks[-2].reach(BLOCK_UNITS)
            within, block = at[rows] - number * BLOCK_UNITS, self._blocks[number]
            end = int(within[within.argmax()]) + 1
            block.reach(end)
            block.reached = max(block.reached, end)
            # numpy assigns in order, so the last of several records of one unit stays
            block.put(within, tuple(column[rows] for column in columns))

    def _by_block(self, at: I64) -> Iterator[tuple[int, I64 | slice]]:
        """Yield (number of a block, rows of `at` in it, ascending)."""
        if not len(at):
            return
        number = at >> _BLOCK_BITS
        low, high = int(number[number.argmin()]), int(number[number.argmax()])
        if low == high:
            yield low, slice(None)
            return
        for each in np.unique(number).tolist():
            yield each, np.flatnonzero(number == each)

    def _need(self, pages: I64) -> None:
        """Read those of these pages that are not in memory."""
        pages = pages[pages < len(self._read)]
        missing = np.unique(pages[~self._read[pages]])
        if not len(missing):
            return
        rows = self._files.told(missing, self._tail)
        if len(rows):
            columns = tuple(rows[name] for name in ("state", "attempt", "term", "when", "newest"))
            self._put(rows["unit"].astype(np.int64), columns)
        self._read[missing] = self._known[missing] = True
        self._read_count += len(missing)

    def _in_memory(self, at: I64, name: str) -> I64:
        """The column `name` of these units where it is in memory, 0 elsewhere."""
        result = np.zeros(len(at), np.int64)
        for number, rows in self._by_block(at):
            if number < len(self._blocks):
                column, within = getattr(self._blocks[number], name), at[rows] - number * BLOCK_UNITS
                there = within < len(column)
                result[rows] = column[np.where(there, within, 0)] * there
        return result


def _pages_of(part: int) -> slice:
    return slice(part * PART_UNITS // PAGE_UNITS, (part + 1) * PART_UNITS // PAGE_UNITS)
