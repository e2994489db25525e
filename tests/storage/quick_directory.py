"""Directories for tests that sync a thousand times.

They are on a file system in memory where there is one with room: what a sync keeps is modelled by the faulty disk, not
by the machine the tests run on.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.simulator.disk.memory import in_memory


@contextmanager
def quick_directory() -> Iterator[Path]:
    """A new empty directory, removed at the end."""
    path = Path(tempfile.mkdtemp(prefix="hourwheel-", dir=in_memory()))
    try:
        yield path
    finally:
        shutil.rmtree(path)
