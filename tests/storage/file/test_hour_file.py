"""Pieces of one file of an hour, read together where they are near each other."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.file.hour_file import HourFile, pieces_by_bytes, run_edges
from storage.format.rows import HEADER_SIZE, MAGIC_LOG, Corrupt, FileHeader
from tests.examples import examples
from tests.storage.quick_directory import quick_directory
from tests.storage.reading_disk import ReadingDisk

GAP, MOST = 16, 64
Lengths = list[tuple[int, int]]
PIECES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 80)), min_size=1, max_size=12)
"""How far each begins behind the one before, and how long it is."""


def placed(lengths: Lengths) -> tuple[list[int], list[int]]:
    """Where such pieces begin and end."""
    starts, ends, at = [], [], HEADER_SIZE
    for behind, size in lengths:
        starts.append(at + behind)
        ends.append(at + behind + size)
        at = ends[-1]
    return starts, ends


def file_of(directory: Path, disk: ReadingDisk, data: bytes) -> HourFile:
    """A file with these bytes behind its header."""
    file = HourFile(disk, directory, "log", FileHeader(MAGIC_LOG, 0, 1, bytes(16)))
    file.write(data, HEADER_SIZE)
    return file


@examples(100)
@given(PIECES)
def test_runs_hold_what_is_near_and_no_more(lengths: Lengths) -> None:
    """All pieces in order; within a run no wide gap and no more than the most, unless it is a single piece; and a run
    ends only for one of the two."""
    starts, ends = placed(lengths)
    edges = run_edges(np.array(starts), np.array(ends), GAP, MOST).tolist()
    assert (edges[0], edges[-1]) == (0, len(starts))
    for first, last in pairwise(edges):
        assert first < last
        assert all(starts[row + 1] - ends[row] <= GAP for row in range(first, last - 1))
        assert last - first == 1 or ends[last - 1] - starts[first] <= MOST
        if last < len(starts):
            assert starts[last] - ends[last - 1] > GAP or ends[last] - starts[first] > MOST


def test_of_no_pieces_there_is_no_run() -> None:
    """Nor anything to read."""
    none = np.empty(0, np.int64)
    assert run_edges(none, none, GAP, MOST).tolist() == [0]


@examples(100)
@given(st.lists(st.integers(0, 2_000), max_size=40))
def test_parts_are_read_with_so_many_bytes_and_have_all_pieces(starts: list[int]) -> None:
    """In the order of the file; a part is closed as soon as it reads more."""
    at, size = np.array(starts, np.int64), 8
    parts = pieces_by_bytes(at, size, GAP, MOST)
    order = np.concatenate(parts)
    assert sorted(order.tolist()) == list(range(len(starts)))
    assert at[order].tolist() == sorted(starts)
    for part in parts:
        edges = run_edges(at[part], at[part] + size, GAP, 1 << 30)
        read = sum(at[part][last - 1] + size - at[part][first] for first, last in pairwise(edges.tolist()))
        assert read <= MOST + size + GAP


@examples(50)
@given(PIECES)
def test_pieces_are_found_in_what_was_read(lengths: Lengths) -> None:
    """Wherever they stand, one read for each run."""
    starts, ends = placed(lengths)
    data = bytes(range(256)) * (ends[-1] // 256 + 1)
    with quick_directory() as directory:
        disk = ReadingDisk()
        file = file_of(directory, disk, data)
        edges = run_edges(np.array(starts), np.array(ends), GAP, MOST)
        found, begins = file.read_pieces(np.array(starts), np.array(ends), GAP, MOST)
        assert disk.reads == len(edges) - 1
        for start, end, at in zip(starts, ends, begins.tolist(), strict=True):
            assert found[at : at + end - start] == data[start - HEADER_SIZE : end - HEADER_SIZE]
        file.close()


def test_a_file_that_ends_before_a_piece_is_told(tmp_path: Path) -> None:
    """By name and place, be it the only piece, the last of several, or all of a file that is not there."""
    file = file_of(tmp_path, ReadingDisk(), bytes(100))
    for starts in ([160], [64, 160]):
        at = np.array(starts)
        with pytest.raises(Corrupt, match=r"log at byte 160: length is 164, expected at least 168"):
            file.read_pieces(at, at + 8, GAP, MOST)
    missing = HourFile(ReadingDisk(), tmp_path / "gone", "log", file.header)
    with pytest.raises(Corrupt, match="gone/log at byte 64: file is missing"):
        missing.read_pieces(np.array([64, 160]), np.array([72, 168]), GAP, MOST)
