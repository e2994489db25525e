"""The Spark session that all of this runs in, set so that a clean machine needs nothing else.

| setting | why |
|---|---|
| PYSPARK_PYTHON | workers run this interpreter, whatever `python3` is |
| JAVA_HOME | as reconcile/java.py found it |
| driver host and address 127.0.0.1 | a machine's name need not resolve; nothing listens outside |
| spark.ui.enabled false | no port is opened that nobody asked for |
| session time zone UTC | a millisecond is the same everywhere |
| Arrow batches of 65,536 rows | bounds what a Python worker holds beside its own arrays |

Under spark-submit the master, the memory and the addresses are the submitter's; only what the answer depends on is set.
"""

import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from reconcile.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLICATION: Final = "hourwheel"
LOOPBACK: Final = "127.0.0.1"
_CONNECT_S: Final = 5.0
_PORT: Final = 7077
_STANDALONE: Final = "spark://"
_EXECUTOR_S: Final = 60.0
_LOOK_S: Final = 0.1

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.python.filterPushdown.enabled": "true",
}
"""What the answer or its speed depends on, wherever it runs."""

_OWN_SETTINGS: Final = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.python.worker.reuse": "true",
}
"""What is set beside it when we start Spark ourselves."""


class MasterUnreachable(Exception):
    """Nothing answers at the Spark master's address, or none of its workers has room; says which and why."""


def session(master: str | None = None, memory: str = "2g", local: Path | None = None) -> "SparkSession":
    """A session with the data source registered: the running one, or a new one.

    `master` is a Spark master URL, by default all cores of this machine; `memory` is the driver's heap, which on a
    local master holds all there is; `local` is where Spark puts what does not fit (by default the system's temporary
    directory). Raises JavaNotFound, MasterUnreachable.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        _prepare(master)
    from pyspark.sql import SparkSession

    from reconcile.source import register

    builder = SparkSession.builder.appName(APPLICATION)
    settings = dict(SETTINGS)
    if not submitted:
        builder = builder.master(master or "local[*]")
        settings |= _OWN_SETTINGS | {"spark.driver.memory": memory}
        if local is not None:
            settings["spark.local.dir"] = str(local)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if not submitted and master is not None and master.startswith(_STANDALONE):
        _wait_for_executor(spark, master)
    register(spark)
    return spark


def _prepare(master: str | None) -> None:
    """The environment that Spark's own launcher reads. Nothing is done if a JVM runs already: it keeps its own."""
    if master is not None:
        reach(master)
    from pyspark import SparkContext

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if SparkContext._gateway is None:
        os.environ["JAVA_HOME"] = str(find_java().home)
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)


def reach(master: str) -> None:
    """Whether a standalone master answers: Spark itself would go on trying for a minute and then say little.

    Raises MasterUnreachable. Of other kinds of master (local, yarn, k8s) nothing is asked.
    """
    if not master.startswith(_STANDALONE):
        return
    for address in master.removeprefix(_STANDALONE).split(","):
        where = urlsplit(f"//{address}")
        try:
            port = where.port or _PORT
            with socket.create_connection((where.hostname or "", port), timeout=_CONNECT_S):
                return
        except (OSError, ValueError) as error:
            reason = error
    raise MasterUnreachable(f"no Spark master answers at {master}: {reason}")


def _wait_for_executor(spark: "SparkSession", master: str) -> None:
    """Until a worker of the cluster has started one executor: a job that none has room for would wait for ever, and
    Spark says so in a warning only. Stops the session and raises MasterUnreachable."""
    status = spark.sparkContext._jsc.sc().statusTracker()
    deadline = time.monotonic() + _EXECUTOR_S
    while len(status.getExecutorInfos()) < 2:  # the driver is one of them
        if time.monotonic() > deadline:
            needed = spark.conf.get("spark.executor.memory", "1g")
            spark.stop()
            raise MasterUnreachable(
                f"no worker of {master} started an executor in {_EXECUTOR_S:.0f} s: it needs a core and {needed}"
            )
        time.sleep(_LOOK_S)
