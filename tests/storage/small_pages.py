"""States in small pages and blocks, so that few units fill many."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import storage.state
import storage.state_block
import storage.state_file
import storage.state_files
import storage.state_seen
import storage.states_due
import storage.warm_hours


@contextmanager
def small_pages() -> Iterator[None]:
    """Pages of 4 units, parts of 16, blocks of 64, a file for 20 records, 50 of them taken at a time."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (storage.state, storage.state_file, storage.state_files, storage.state_seen):
            patch.setattr(module, "PAGE_UNITS", 4)
        for module in (storage.state, storage.state_block, storage.state_seen):
            patch.setattr(module, "BLOCK_UNITS", 64)
        patch.setattr(storage.state, "PART_UNITS", 16)
        patch.setattr(storage.state, "_BLOCK_BITS", 6)
        patch.setattr(storage.state, "_PIECE_PAGES", 2)
        patch.setattr(storage.state_block, "PART_UNITS", 16)
        patch.setattr(storage.state_files, "_PAGES", 3)
        patch.setattr(storage.state_files, "_FIND_PAGES", 2)
        patch.setattr(storage.state_files, "_RUN_MAX", 50)
        patch.setattr(storage.state_files, "TAIL_MIN", 20)
        patch.setattr(storage.states_due, "TAIL_MIN", 20)
        patch.setattr(storage.warm_hours, "_WARM_HOURS_MAX", 1)
        yield
