"""The Spark session that all of this runs in, set so that a clean machine needs nothing else.

| setting | why |
|---|---|
| PYSPARK_PYTHON | workers run this interpreter, whatever `python3` is |
| JAVA_HOME | as reconcile/spark/java.py found it |
| driver host and address 127.0.0.1 | a machine's name need not resolve; nothing listens outside |
| or, with a master elsewhere, the address it sees | its workers have to find the driver |
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

from reconcile.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APPLICATION: Final = "hourwheel"
LOOPBACK: Final = "127.0.0.1"
_CONNECT_S: Final = 5.0
_PORT: Final = 7077
_STANDALONE: Final = "spark://"
_LOCAL: Final = "local"
_OTHERS: Final = ("yarn", "k8s://")
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
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.python.worker.reuse": "true",
}
"""What is set beside it when we start Spark ourselves."""


class MasterUnreachable(Exception):
    """Nothing answers at the Spark master's address, or none of its workers has room; says which and why."""


class SparkNotStarted(Exception):
    """Spark refused to begin; says why, in its words."""


def session(master: str | None = None, memory: str = "2g", local: Path | None = None) -> "SparkSession":
    """A session with the data source registered: the running one, or a new one.

    `master` is a Spark master URL, by default all cores of this machine; `memory` is the driver's heap, which on a
    local master holds all there is; `local` is where Spark puts what does not fit (by default the system's temporary
    directory). Raises JavaNotFound, MasterUnreachable, SparkNotStarted.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    address = "" if submitted else _prepare(master)
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from reconcile.spark.source import register

    builder = SparkSession.builder.appName(APPLICATION)
    settings = dict(SETTINGS)
    if not submitted:
        builder = builder.master(master or "local[*]")
        settings |= _OWN_SETTINGS | {"spark.driver.memory": memory}
        if address:
            settings |= {"spark.driver.host": address, "spark.driver.bindAddress": address}
        if local is not None:
            settings["spark.local.dir"] = str(local)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, Py4JJavaError) as error:
        said = next((line for line in str(error).splitlines() if "Exception" in line), str(error).split("\n")[0])
        raise SparkNotStarted(f"Spark did not start: {said.lstrip(': ')}") from error
    spark.sparkContext.setLogLevel("ERROR")
    if not submitted and master is not None and master.startswith(_STANDALONE):
        _wait_for_executor(spark, master)
    register(spark)
    return spark


def _prepare(master: str | None) -> str:
    """The environment that Spark's own launcher reads, left as it is if a JVM runs already: it keeps its own. Returns
    the address at which workers find this process, "" where Spark is to know it."""
    address = reach(master or _LOCAL)
    from pyspark import SparkContext

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if SparkContext._gateway is None:
        os.environ["JAVA_HOME"] = str(find_java().home)
        if address:
            os.environ.setdefault("SPARK_LOCAL_IP", address)
    return address


def reach(master: str) -> str:
    """Whether a standalone master answers: Spark itself would go on trying for a minute and then say little. Returns
    this machine's address as that one sees it; loopback for a local master, and "" for others, of which nothing is
    asked (yarn, k8s).

    Raises MasterUnreachable.
    """
    if not master.startswith(_STANDALONE):
        if not master.startswith((_LOCAL, *_OTHERS)):
            raise MasterUnreachable(f"{master} is no Spark master: give spark://HOST:PORT, local[N], yarn or k8s://URL")
        return LOOPBACK if master.startswith(_LOCAL) else ""
    for address in master.removeprefix(_STANDALONE).split(","):
        where = urlsplit(f"//{address}")
        try:
            port = where.port or _PORT
            with socket.create_connection((where.hostname or "", port), timeout=_CONNECT_S) as connection:
                return str(connection.getsockname()[0])
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
