"""One Spark session for all tests: starting one takes as long as all of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reconcile.spark.session import session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session on two threads of this process, with the data source registered."""
    local: Path = tmp_path_factory.mktemp("spark")
    spark = session("local[2]", memory="1g", local=local)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield spark
    spark.stop()


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what is in report.json: its page is not drawn, half of what a small job costs."""
    monkeypatch.setattr("reconcile.judge.job.write_page", lambda out, document: out)
