"""What the tests of queries share: a store."""

from pathlib import Path

import pytest

from storage.file.disk import Disk
from storage.store import Store
from tests.storage.workload import found


@pytest.fixture
def store(quick_path: Path) -> Store:
    """A founded store in an empty directory."""
    store = Store.open(quick_path, disk=Disk())
    found(store)
    return store
