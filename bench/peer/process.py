"""Processes of other systems: how a program is found, started and ended.

Each peer runs as one process (ours are three) on a free port, with its data in a directory made for it. It is ended by
its pid. Nothing is installed from here. A peer that is not installed is `Missing`, and the row says so.
"""

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from chaos.cluster.cluster import ClusterFailed
from chaos.cluster.ports import free_ports

START_S = 20.0
STOP_S = 30.0
LOOPBACK = "127.0.0.1"
#: Where Debian puts servers that are not on every user's path.
_FOLDERS = ("/usr/sbin", "/usr/local/sbin", *sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True))


class Missing(Exception):
    """The peer cannot be measured here. The text says why."""


def find(program: str) -> str:
    """Return the path of an installed program. Raises Missing."""
    path = shutil.which(program, path=os.pathsep.join([*_FOLDERS, os.environ.get("PATH", "")]))
    if path is None:
        raise Missing(f"{program} is not installed (make bench-peers can install it)")
    return path


def version(command: Sequence[str]) -> str:
    """Return the first line that the program prints about itself."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=START_S).stdout.splitlines()[0]


def unprivileged() -> str | None:
    """Return the name of a user, for servers that refuse to run as root. None if this process is not root. Raises
    Missing if there is no such user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise Missing("it refuses root, and neither user postgres nor nobody exists")


@contextlib.contextmanager
def running(
    command: Sequence[str], port: int, log: Path, user: str | None = None, stop: signal.Signals = signal.SIGTERM
) -> Iterator[None]:
    """Run the server, from its first listening on `port` to the end of the block. Raises ClusterFailed with the end of
    its log if it does not start."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            user=user,
            start_new_session=True,
        )
    try:
        _wait_listening(process, port, log)
        yield
    finally:
        process.send_signal(stop)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_listening(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    end_s = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() > end_s:
            words = log.read_text(encoding="utf-8", errors="replace")[-500:]
            raise ClusterFailed(f"{process.args!r} does not listen on {port}\n{words}")
        time.sleep(0.05)


def free_port() -> int:
    """Return a port on which no process listens now."""
    return free_ports(1)[0]
