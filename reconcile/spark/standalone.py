"""A Spark cluster of this machine's own: a master and workers as processes, out of the pip package, on loopback.

It shows that a job gives the same on a cluster as in one process, and lets a machine with cores to spare use them from
several JVMs. Nothing is installed or configured: the programs are pyspark's, the Java is what reconcile/spark/java.py
finds, ports are the system's choice. Each step waits for the line in which Spark itself says that it is done.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Final

import pyspark

from reconcile.spark.java import find_java
from reconcile.spark.session import LOOPBACK

_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_MASTER_SAYS: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_SAYS: Final = re.compile(r"Successfully registered with master (\S+)")
_START_S: Final = 60.0
_STOP_S: Final = 15.0
_LINES_KEPT: Final = 40


class ClusterNotStarted(Exception):
    """A process of the cluster ended, or did not say in time that it runs; has the last lines it wrote."""


@contextmanager
def standalone_cluster(workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[str]:
    """The URL of a master that has this many workers, of `cores` cores and `memory` for executors each; all processes
    are ended with the block. Raises JavaNotFound, ClusterNotStarted."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hourwheel-spark-")))
        environment = _environment(directory)
        address = ["--host", LOOPBACK, "--port", "0", "--webui-port", "0"]
        master = stack.enter_context(_running("master", [_MASTER, *address], environment))
        url = master.told(_MASTER_SAYS)
        started = []
        for number in range(1, workers + 1):
            size = ["--cores", str(cores), "--memory", memory, "--work-dir", str(directory / f"worker-{number}")]
            program = [_WORKER, *address, *size, url]
            started.append(stack.enter_context(_running(f"worker {number}", program, environment)))
        for worker in started:
            worker.told(_WORKER_SAYS)
        yield url


def _environment(directory: Path) -> dict[str, str]:
    return {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOG_DIR": str(directory),
    }


def spark_home() -> Path:
    """Where pip put Spark's programs."""
    return Path(pyspark.__file__).parent


class _Lines:
    """What a process writes, line by line, read as it comes so that the process never waits for room."""

    def __init__(self, name: str, stream: IO[str]) -> None:
        self._name = name
        self._lines: SimpleQueue[str] = SimpleQueue()
        self.reader = threading.Thread(target=self._pass_on, args=(stream,), daemon=True)
        self.reader.start()

    def told(self, says: re.Pattern[str]) -> str:
        """What the pattern finds in the first line that has it. Raises ClusterNotStarted."""
        last: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=_START_S)
            except Empty:
                line = ""
            match = says.search(line)
            if match:
                return match[1]
            if not line:
                raise ClusterNotStarted(f"the Spark {self._name} did not start:\n{''.join(last)}")
            last = [*last[1 - _LINES_KEPT :], line]

    def _pass_on(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.put(line)
        self._lines.put("")


@contextmanager
def _running(name: str, program: Sequence[str], environment: Mapping[str, str]) -> Iterator[_Lines]:
    """One process, ended with the block."""
    process = subprocess.Popen(
        [spark_home() / "bin" / "spark-class", *program],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = _Lines(name, process.stderr)
    try:
        yield lines
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        lines.reader.join()
        process.stderr.close()
