"""Fixtures of the storage tests."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A directory on a file system in memory where there is one: crash tests make thousands of real syncs, and what a
    sync keeps is modelled by the faulty disk, not by the machine's."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="hourwheel-", dir=memory if memory.is_dir() else None))
    yield path
    shutil.rmtree(path)
