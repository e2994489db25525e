"""Where files lie that no disk has to hold."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from chaos.simulator.disk import memory

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(("free", "found"), [(64 << 20, False), (8 << 30, True)])
def test_a_file_system_without_room_is_none(
    free: int, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that was told nothing: it has 64 MiB."""
    monkeypatch.setattr(memory, "_SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(free, 0, free))
    assert memory.in_memory() == (tmp_path if found else None)


def test_there_may_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every system has one."""
    monkeypatch.setattr(memory, "_SHARED_MEMORY", tmp_path / "none")
    assert memory.in_memory() is None
