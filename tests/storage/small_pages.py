"""States in small pages and blocks, so that few units fill many."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import storage.checkpoint.states_due
import storage.checkpoint.warm_hours
import storage.state.block
import storage.state.file
import storage.state.files
import storage.state.state_view
import storage.state.unit_states


@contextmanager
def small_pages() -> Iterator[None]:
    """Pages of 4 units, parts of 16, blocks of 64, a file for 20 records, 50 of them taken at a time."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (storage.state.unit_states, storage.state.file, storage.state.files, storage.state.state_view):
            patch.setattr(module, "PAGE_UNITS", 4)
        for module in (storage.state.unit_states, storage.state.block, storage.state.state_view):
            patch.setattr(module, "BLOCK_UNITS", 64)
        patch.setattr(storage.state.unit_states, "PART_UNITS", 16)
        patch.setattr(storage.state.unit_states, "_BLOCK_BITS", 6)
        patch.setattr(storage.state.unit_states, "_PIECE_PAGES", 2)
        patch.setattr(storage.state.block, "PART_UNITS", 16)
        patch.setattr(storage.state.files, "_PAGES", 3)
        patch.setattr(storage.state.files, "_FIND_PAGES", 2)
        patch.setattr(storage.state.files, "_RUN_MAX", 50)
        patch.setattr(storage.state.files, "TAIL_MIN", 20)
        patch.setattr(storage.checkpoint.states_due, "TAIL_MIN", 20)
        patch.setattr(storage.checkpoint.warm_hours, "_WARM_HOURS_MAX", 1)
        yield
