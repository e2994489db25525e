"""SILENCE in a data directory: written whole or not at all, and checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.directory.data_directory import DataDirectory
from storage.file.disk import Disk
from storage.file.silence_file import SILENCE, read_silence, write_silence
from storage.format.rows import Corrupt, FormatRefused
from tests.storage.faulty_disk import Stopped, StoppingDisk


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """A directory that does not say owes nothing that anybody was told of."""
    assert read_silence(tmp_path, Disk()) == 0
    write_silence(tmp_path, 400, Disk())
    write_silence(tmp_path, 1600, Disk())
    assert read_silence(tmp_path, Disk()) == 1600
    assert [path.name for path in tmp_path.iterdir()] == [SILENCE]


def test_a_stop_or_a_power_cut_leaves_one_line_or_the_other(tmp_path: Path) -> None:
    """At every step; what was written is durable when it returns, for an echo says it then. A torn line would be taken
    for damage, and the node would not start."""
    disk = StoppingDisk()
    write_silence(tmp_path, 400, disk)
    steps = len(disk.operations)
    assert steps > 3
    for stop_at in range(1, steps + 2):
        directory = tmp_path / str(stop_at)
        directory.mkdir()
        write_silence(directory, 400, Disk())
        disk = StoppingDisk(stop_at, torn_bytes=9)
        disk.trust(directory)
        if stop_at <= steps:
            with pytest.raises(Stopped):
                write_silence(directory, 1600, disk)
        else:
            write_silence(directory, 1600, disk)
        disk.lose_unsynced(directory)
        said = read_silence(directory, Disk())
        assert said == (400 if stop_at <= steps else 1600)


@pytest.mark.parametrize("bit", range(0, 8 * 57, 7))
def test_a_flipped_bit_is_found(tmp_path: Path, bit: int) -> None:
    """A node that owed less than it told could elect a second leader."""
    write_silence(tmp_path, 1600, Disk())
    path = tmp_path / SILENCE
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    with pytest.raises(Corrupt):
        read_silence(tmp_path, Disk())


def test_another_format_is_refused_by_name(tmp_path: Path) -> None:
    """Golden bytes of a file of format 2."""
    (tmp_path / SILENCE).write_bytes(b'{"checksum": "b1e1929b", "format": 2, "silence_ms": 400}\n')
    with pytest.raises(FormatRefused, match="format 2; this build supports 1"):
        read_silence(tmp_path, Disk())


def test_the_bytes_are_these(tmp_path: Path) -> None:
    """Golden bytes."""
    write_silence(tmp_path, 400, Disk())
    assert (tmp_path / SILENCE).read_bytes() == b'{"checksum": "55dfa147", "format": 1, "silence_ms": 400}\n'


def test_a_directory_with_it_opens_as_ever(tmp_path: Path) -> None:
    """A build that does not know the file passes over it, as over all that it does not know beside a LOCK. The opening
    itself is of that build: it does not look at the file either."""
    path = tmp_path / "n1"
    DataDirectory.open(path, "n1", Disk(), bytes(16)).close()
    write_silence(path, 400, Disk())
    DataDirectory.open(path, "n1", Disk(), bytes(16)).close()
