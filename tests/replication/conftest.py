"""Fixtures of the machine's tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.replication.applied_log import GENESIS, Log, rise


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], Log]]:
    """Makes founded logs on directories of their own; closes them."""
    logs: list[Log] = []

    def new(name: str) -> Log:
        directory = tmp_path / name
        directory.mkdir()
        logs.append(Log(directory))
        logs[-1].apply(GENESIS)
        return logs[-1]

    yield new
    for log in logs:
        log.store.close()


@pytest.fixture
def log(make: Callable[[str], Log]) -> Log:
    """One founded log."""
    return make("n1")


@pytest.fixture
def newest_level(log: Log) -> None:
    """The test's log is of the newest level."""
    rise(log)
