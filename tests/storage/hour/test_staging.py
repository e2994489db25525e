"""What is staged, against plain lists: joined, cut, frozen and forgotten in any order; and heads that are kept."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import storage.checkpoint.hour_set
import storage.hour.heads_kept
import storage.hour.stage_write
import storage.hour.staging
from storage.directory.verify import verify
from storage.file.disk import Disk
from storage.format.chain import run_edges
from storage.format.position import HOUR_MS
from storage.format.rows import UNIT
from storage.hour.heads_kept import HeadsKept, used_heads
from storage.hour.staging import Chunk, Stage, joined, parts
from storage.store import Store
from tests.examples import examples
from tests.storage.reading_disk import ReadingDisk
from tests.storage.workload import HOUR, batch_of, checkpoint, content, found, record_at

HOURS = 4
Row = tuple[int, int, tuple[int, ...]]
"""(global_index, offset in the log, words of the record) of a unit."""


class Model:
    """A stage, and the rows that must be in it, by hour in order of arrival."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.rows: dict[int, list[Row]] = {hour: [] for hour in range(HOURS)}
        self.end = dict.fromkeys(range(HOURS), (0, 64))  # global_index and log offset of the next unit
        self.frozen: tuple[tuple[Chunk, ...], dict[int, list[Row]]] | None = None

    def add(self, hours: list[int], words_each: int) -> None:
        """A batch, arranged by hour, whose records grow by a word from each to the next."""
        hours, units = sorted(hours), np.zeros(len(hours), UNIT)
        words = np.arange(sum(words_each + row for row in range(len(hours))), dtype=np.uint64)
        ends = [0]
        for row, hour in enumerate(hours):
            index, offset = self.end[hour]
            length = words_each + row
            units["due_ms"][row], units["size"][row] = hour * HOUR_MS + 5, 8 * length
            units["global_index"][row], units["offset"][row] = index, offset
            self.rows[hour].append((index, offset, tuple(words[ends[-1] : ends[-1] + length].tolist())))
            self.end[hour] = (index + 1, offset + 8 * length)
            ends.append(ends[-1] + length)
        edges = run_edges(np.array(hours))
        self.stage.add(units, words, np.array(hours)[edges[:-1]], edges, np.array(ends)[edges])

    def freeze(self) -> None:
        """A checkpoint begins, the one before is finished."""
        self.thaw()
        self.frozen = self.stage.freeze(), {hour: list(rows) for hour, rows in self.rows.items()}

    def thaw(self) -> None:
        """A checkpoint ends: it has all that was there when it began, whatever came after."""
        if self.frozen is None:
            return
        chunks, taken = self.frozen
        groups = [joined(group) for group in parts(chunks, [0, HOURS // 2], HOURS, lambda: None) if group]
        assert [row for group in groups for row in rows_of(group)] == [row for hour in taken for row in taken[hour]]
        self.stage.thaw()
        self.rows = {hour: [row for row in rows if row not in taken[hour]] for hour, rows in self.rows.items()}
        self.frozen = None

    def remove(self, hour: int) -> None:
        """The hour was written by itself, or unlinked."""
        self.stage.remove(hour, hour)
        self.rows[hour] = []

    def check(self) -> None:
        """Every hour has its units and records, and the memory is that of the chunks."""
        for hour, expected in self.rows.items():
            staged = self.stage.of(hour)
            found: list[Row] = []
            for row in staged.joined_units():
                index, offset, size = int(row["global_index"]), int(row["offset"]), int(row["size"])
                start, words = staged.log.find(offset)
                found.append(
                    (index, offset, tuple(words[(offset - start) // 8 : (offset - start + size) // 8].tolist()))
                )
            assert found == expected
            at = np.array([index for index, _, _ in expected[::-1]], np.int64)
            if len(at):
                assert staged.units.gather(at, UNIT)["global_index"].tolist() == at.tolist()
        assert self.stage.bytes == sum(chunk.bytes for chunk in self.stage.chunks)


def rows_of(chunk: Chunk) -> list[Row]:
    """The rows of a chunk, hour by hour."""
    found: list[Row] = []
    for first, last, word in zip(chunk.rows[:-1], chunk.rows[1:], chunk.edges[:-1].tolist(), strict=True):
        for unit in chunk.units[first:last]:
            end = word + int(unit["size"]) // 8
            found.append((int(unit["global_index"]), int(unit["offset"]), tuple(chunk.words[word:end].tolist())))
            word = end
    assert len(found) == len(chunk)
    return found


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(0, HOURS - 1), min_size=1, max_size=6), st.integers(12, 14)),
        st.tuples(st.sampled_from(["freeze", "thaw", "check"])),
        st.tuples(st.just("remove"), st.integers(0, HOURS - 1)),
    ),
    max_size=40,
)


@examples(150)
@given(STEPS, st.integers(1, 4), st.integers(2, 5), st.integers(1, 5))
def test_stage_against_lists(steps: list[tuple[object, ...]], asked: int, small: int, small_rows: int) -> None:
    """Whatever is joined, cut, frozen or removed in between, an hour has what came to it, in order."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(storage.hour.staging, "_CHUNKS_ASKED_MAX", asked)
        patched.setattr(storage.hour.staging, "_SMALL_CHUNKS_MAX", small)
        patched.setattr(storage.hour.staging, "_SMALL_ROWS", small_rows)
        model = Model()
        for name, *arguments in steps:
            getattr(model, str(name))(*arguments)
        model.check()
        model.freeze()
        model.thaw()
        assert model.stage.bytes == 0


def test_chunks_stay_few() -> None:
    """Thousands of single messages do not make thousands of chunks; asking for an hour joins many batches, and each row
    only a few times."""
    model = Model()
    for _ in range(1_000):
        model.add([1], 12)
    assert len(model.stage.chunks) < 100
    model.check()
    assert len(model.stage.chunks) <= 9
    first = model.stage.chunks[0]
    for _ in range(100):
        model.add([0, 2], 12)
        model.stage.of(2)
    assert len(model.stage.chunks) <= 9
    assert model.stage.chunks[0] is first


@pytest.mark.parametrize("kept", [0, 10, 1000])
def test_heads_are_kept_between_checkpoints(quick_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    """An hour whose heads are kept is written again without reading its index; one whose heads had to go has the same
    bytes in the end."""
    monkeypatch.setattr(storage.hour.heads_kept, "KEPT_HOURS_MAX", kept)
    monkeypatch.setattr(storage.hour.stage_write, "KEPT_UNITS_MIN", 1)
    disk = ReadingDisk()
    store = Store.open(quick_path, disk=disk)
    found(store)
    due = np.arange(3_000) * (HOUR_MS // 100) + HOUR * HOUR_MS  # 30 hours
    for round_ in range(3):
        store.append(batch_of(due + round_))
        disk.read_bytes = 0
        checkpoint(store, round_ + 1)
        index_bytes = 64 * 100 * round_ * max(0, 30 - kept)
        assert index_bytes <= disk.read_bytes <= index_bytes * 3
    store.turn(HOUR + 2)
    store.append(batch_of(due + 7))
    checkpoint(store, 4)
    assert len(store.second(HOUR * 3600)) == 4
    store.close()
    assert verify(quick_path).faults == []


def test_a_part_does_not_hold_its_batch(quick_path: Path) -> None:
    """A batch for near hours with one message for a far one: only that one is staged, in memory of its own."""
    store = Store.open(quick_path, disk=Disk())
    found(store)
    store.turn(HOUR)
    due = [HOUR * HOUR_MS + 1] * 500 + [(HOUR - 9) * HOUR_MS] + [(HOUR + 9) * HOUR_MS]
    store.append(batch_of(due))
    for chunk in store._hours._stage.chunks:
        for array in (chunk.units, chunk.words):
            assert array.base is None or array.base.nbytes == array.nbytes
    assert store.staged_bytes < 10_000
    checkpoint(store, 1)
    store.close()
    assert verify(quick_path).units == 502


def test_heads_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """In hours and in bytes, those that were written last."""
    one = used_heads(np.zeros(3600, np.uint32), np.ones(3600, np.uint32), 5)
    kept = HeadsKept()
    monkeypatch.setattr(storage.hour.heads_kept, "KEPT_HOURS_MAX", 3)
    for hour in (1, 2, 3, 1, 4):
        kept.keep(hour, one)
    assert [hour for hour in range(6) if kept.get(hour, 5)] == [1, 3, 4]
    assert kept.bytes == 3 * one.bytes
    monkeypatch.setattr(storage.hour.heads_kept, "KEPT_BYTES_MAX", 2 * one.bytes)
    kept.keep(5, one)
    assert [hour for hour in range(6) if kept.get(hour, 5)] == [4, 5]
    assert kept.bytes == 2 * one.bytes


def test_heads_that_a_checkpoint_brings_late_are_not_used(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop has written more of the hour meanwhile. Linked to the checkpoint's heads, what comes next would leave
    those units out of their seconds' chains: nobody would hand them over."""
    monkeypatch.setattr(storage.hour.stage_write, "KEPT_UNITS_MIN", 1)
    store = Store.open(quick_path, disk=Disk())
    found(store)
    due = [HOUR * HOUR_MS + ms for ms in (1, 2)]
    store.append(batch_of(due))
    job = store.begin_checkpoint(record_at(1))
    monkeypatch.setattr(storage.checkpoint.hour_set, "_STAGED_BYTES_MAX", 1)
    store.append(batch_of([HOUR * HOUR_MS + 3]))
    assert store.staged_bytes == 0
    monkeypatch.setattr(storage.checkpoint.hour_set, "_STAGED_BYTES_MAX", 1 << 40)
    job.run()
    job.finish()
    store.append(batch_of([HOUR * HOUR_MS + 4]))
    checkpoint(store, 2)
    assert store.second(HOUR * 3600).due_ms.tolist() == [HOUR * HOUR_MS + ms for ms in (1, 2, 3, 4)]
    store.close()
    assert verify(quick_path).faults == []


def test_written_by_itself_while_a_checkpoint_has_it(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All hours are written on the loop because there is too much, in the middle of a checkpoint that froze some of it:
    the same bytes, and heads that belong to them."""
    store = Store.open(quick_path, disk=Disk())
    found(store)
    due = np.arange(500) * (HOUR_MS // 50) + HOUR * HOUR_MS  # 10 hours
    store.append(batch_of(due))
    job = store.begin_checkpoint(record_at(1))
    monkeypatch.setattr(storage.checkpoint.hour_set, "_STAGED_BYTES_MAX", 1)
    store.append(batch_of(due + 1))
    assert store.staged_bytes == 0
    monkeypatch.setattr(storage.checkpoint.hour_set, "_STAGED_BYTES_MAX", 1 << 40)
    store.append(batch_of(due + 2))
    job.run()
    job.finish()
    checkpoint(store, 2)
    assert store.staged_bytes == 0
    before = content(quick_path)
    store.close()
    assert verify(quick_path).faults == []
    assert len(before[f"{HOUR}/index"]) == 64 + 64 * 150


class Counted(list[Chunk]):
    """Chunks that know how many of them were looked at in a row."""

    seen = 0

    def __iter__(self) -> Iterator[Chunk]:
        for chunk in super().__iter__():
            self.seen += 1
            yield chunk


def test_cutting_many_chunks_pauses_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunks looked at, and the parts made, between two pauses: never all chunks times all groups."""
    stage, made, most = Stage(), 0, [0, 0]
    units = np.zeros(70, UNIT)
    units["due_ms"], units["size"] = np.arange(70) * HOUR_MS, 8
    for _ in range(200):
        stage.add(units, np.zeros(70, np.uint64), np.arange(70), np.arange(71), np.arange(71))
    chunks, part = Counted(stage.chunks), Chunk.part

    def counted(self: Chunk, first: int, last: int) -> Chunk:
        nonlocal made
        made += 1
        return part(self, first, last)

    def pause() -> None:
        nonlocal made
        most[:] = max(most[0], chunks.seen), max(most[1], made)
        chunks.seen = made = 0

    monkeypatch.setattr(Chunk, "part", counted)
    groups = list(parts(chunks, list(range(0, 70, 7)), 70, pause))
    pause()
    assert [len(group) for group in groups] == [200] * 10
    assert most == [64, 200]
