"""Fixtures of the storage tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.quick_directory import quick_directory


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A new empty directory where syncs cost nothing."""
    with quick_directory() as path:
        yield path
