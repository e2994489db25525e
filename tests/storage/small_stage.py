"""Staging and states files in small: what takes thousands of batches otherwise happens with a handful."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import storage.checkpoint.states_due
import storage.hour.heads_kept
import storage.hour.open_hour
import storage.hour.stage_write
import storage.hour.staging
import storage.state.files


@contextmanager
def small_stage() -> Iterator[None]:
    """What is staged is joined at once, written two hours at a time, heads are kept for one hour only; and small
    states."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage.hour.staging, "_CHUNKS_ASKED_MAX", 1)
        patch.setattr(storage.hour.staging, "_SMALL_CHUNKS_MAX", 3)
        patch.setattr(storage.hour.stage_write, "_GROUP_HOURS", 2)
        patch.setattr(storage.hour.heads_kept, "KEPT_HOURS_MAX", 1)
        patch.setattr(storage.hour.stage_write, "KEPT_UNITS_MIN", 1)
        with small_states():
            yield


@contextmanager
def small_states() -> Iterator[None]:
    """Three settle records are worth a states file; a start looks at the lengths of one hour, a checkpoint of two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage.hour.open_hour, "START_HOURS", 1)
        patch.setattr(storage.hour.open_hour, "PIECE_HOURS", 2)
        patch.setattr(storage.checkpoint.states_due, "TAIL_MIN", 3)
        patch.setattr(storage.state.files, "TAIL_MIN", 3)
        yield
