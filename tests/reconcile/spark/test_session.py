"""A session needs nothing of the machine that was not asked for, and says what is missing before Spark does."""

import socket
import sys
from typing import Any

import pytest

from reconcile.spark.session import MasterUnreachable, reach


def test_nothing_at_the_masters_address_is_said_at_once() -> None:
    """Spark itself would try for a minute. A master behind several addresses is reached if one answers."""
    with socket.socket() as taken, socket.socket() as listening:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(MasterUnreachable, match=f"no Spark master answers at spark://{nobody}: .*refused"):
            reach(f"spark://{nobody}")
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        assert reach(f"spark://{nobody},127.0.0.1:{listening.getsockname()[1]}") == "127.0.0.1"


@pytest.mark.parametrize("master", ["spark://:0", "spark://127.0.0.1:port", "spark://"])
def test_an_address_that_is_none_is_said(master: str) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(MasterUnreachable, match="no Spark master answers at"):
        reach(master)


@pytest.mark.parametrize(("master", "address"), [("local", "127.0.0.1"), ("local[2]", "127.0.0.1"), ("yarn", ""), ("k8s://https://host:443", "")])  # fmt: skip  # noqa: E501
def test_other_masters_are_sparks_own_business(master: str, address: str) -> None:
    """Nothing is asked of them. Only a local one has its workers on this machine for sure."""
    assert reach(master) == address


def test_what_is_no_master_is_said_before_a_jvm_is_started() -> None:
    """Spark's own launcher would end with a stack of frames."""
    with pytest.raises(MasterUnreachable, match=r"127\.0\.0\.1:7077 is no Spark master: give spark://"):
        reach("127.0.0.1:7077")


def test_workers_run_this_interpreter_in_utc(spark: Any) -> None:
    """Whatever python3 and the machine's time zone are; and nothing listens for browsers."""
    ran = spark.range(1).rdd.map(lambda _: __import__("sys").executable).collect()
    assert ran == [sys.executable]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sql("select cast(timestamp_millis(0) as string)").collect()[0][0] == "1970-01-01 00:00:00"
