"""`hourwheel dev`: a whole cluster of real node processes on loopback, for trying things out, killing a leader
included.

One JSON line on stdout names every node's pid and addresses, as soon as all are ready; then it watches. A node that
ends while the others run is reported and not restarted: what the cluster does without it is what one wants to see.
SIGTERM or SIGINT ends the nodes, by pid.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import click

from chaos.cluster.local_nodes import (
    LOOPBACK,
    LocalNode,
    by_port,
    how_it_ended,
    last_words,
    start_process,
    write_config,
)
from cli.failure import Failure
from node.runtime.exit_code import ExitCode

READY_S = 10.0
GRACE_S = 15.0
_POLL_S = 0.1
#: A push to this machine is refused unless it is allowed, and here receivers are on this machine.
SETTINGS = {"push": {"allow": ["127.0.0.0/8"]}}


@click.command()
@click.option(
    "--dir", "directory", required=True, type=click.Path(path_type=Path, file_okay=False), help="made if missing; kept"
)
@click.option(
    "--nodes", "count", type=click.Choice(["1", "3", "5"]), default="3", show_default=True, help="how many nodes"
)
@click.option(
    "--port",
    type=click.IntRange(1024, 65_000),
    default=7400,
    show_default=True,
    help="HTTP of the first; Raft 100 above",
)
def command(directory: Path, count: str, port: int) -> None:
    """Runs a cluster on this machine until SIGTERM or SIGINT."""
    nodes = by_port(directory, int(count), port)
    _refuse_another_size(directory, len(nodes))
    for node in nodes:
        _refuse_taken(node, "HTTP", node.http_port)
        _refuse_taken(node, "Raft", node.raft_port)
        _refuse_running(node)
    try:
        for node in nodes:
            write_config(node, nodes, SETTINGS)
    except OSError as error:
        raise Failure(ExitCode.DATA, f"cannot write in {directory}: {error}") from None
    asyncio.run(_run(nodes))


def _refuse_another_size(directory: Path, count: int) -> None:
    """Members cannot be added or removed: a cluster of another size would never become ready, or vote without some."""
    for path in sorted(directory.glob("n*/node.toml")):
        had = len(tomllib.loads(path.read_text(encoding="utf-8")).get("peers", []))
        if had != count:
            detail = f"{directory} holds a cluster of {had}: give --nodes {had}, or another --dir"
            raise Failure(ExitCode.USAGE, detail)


def _refuse_taken(node: LocalNode, purpose: str, port: int) -> None:
    """Looks before any node is started: whoever listens there may answer /readyz in the place of ours."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            detail = f"{node.node_id} cannot listen for {purpose} on {LOOPBACK}:{port}: {error.strerror}"
            raise Failure(ExitCode.ADDRESS, f"{detail}; give another --port") from None


def _refuse_running(node: LocalNode) -> None:
    """A node holds the lock of its directory while it runs: started on other ports it would not be met otherwise, and
    its config file must not be rewritten under it.
    """
    try:
        lock = os.open(node.data_path / "LOCK", os.O_RDONLY)
    except OSError:
        return  # not made yet; what else may be wrong with it the node itself says
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Failure(ExitCode.DATA, f"{node.node_id} runs already on {node.directory}") from None
    finally:
        os.close(lock)


class Watch:
    """The running processes, and an event for each end."""

    def __init__(self, nodes: list[LocalNode]) -> None:
        self.processes = {node: start_process(node) for node in nodes}
        self.ended: asyncio.Queue[LocalNode] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        for node, process in self.processes.items():
            pidfd = os.pidfd_open(process.pid)
            loop.add_reader(pidfd, self._collect, node, process, pidfd)

    def _collect(self, node: LocalNode, process: subprocess.Popen[bytes], pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        process.wait()
        self.ended.put_nowait(node)

    def running(self) -> list[subprocess.Popen[bytes]]:
        """Processes that have not ended."""
        return [process for process in self.processes.values() if process.returncode is None]

    def describe(self) -> str:
        """The JSON line."""
        rows = [
            {
                "id": node.node_id,
                "pid": process.pid,
                "http": node.url,
                "raft": node.raft,
                "dir": str(node.directory),
                "log": str(node.log_path),
            }
            for node, process in self.processes.items()
        ]
        return json.dumps({"nodes": rows})

    async def end(self) -> None:
        """SIGTERM to each that runs; SIGKILL to what is left after the grace time."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self.running():
                process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    while self.running():
                        await self.ended.get()


def _is_ready(node: LocalNode) -> bool:
    try:
        with urllib.request.urlopen(f"{node.url}/readyz", timeout=1) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


async def _all_ready(nodes: list[LocalNode]) -> None:
    """Returns when every node answers /readyz with 200."""
    waiting = list(nodes)
    while waiting:
        waiting = [node for node in waiting if not await asyncio.to_thread(_is_ready, node)]
        await asyncio.sleep(_POLL_S)


async def _run(nodes: list[LocalNode]) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watch = Watch(nodes)
    stopped = asyncio.create_task(stop.wait())
    ended = asyncio.create_task(watch.ended.get())
    ready = asyncio.create_task(_all_ready(nodes))
    try:
        await asyncio.wait({stopped, ended, ready}, timeout=READY_S, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise _ended_early(watch, ended.result())
        if not stopped.done():
            click.echo(watch.describe())
            if not ready.done():
                click.echo("hourwheel dev: not all nodes are ready yet (see their logs)", err=True)
        while not stopped.done():
            await asyncio.wait({stopped, ended}, return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                _report(watch, ended.result())
                ended = asyncio.create_task(watch.ended.get())
    finally:
        for task in (stopped, ended, ready):
            task.cancel()
        await watch.end()


def _ended_early(watch: Watch, node: LocalNode) -> Failure:
    process = watch.processes[node]
    assert process.returncode is not None
    code = (
        ExitCode(process.returncode)
        if process.returncode in (ExitCode.CONFIG, ExitCode.ADDRESS, ExitCode.DATA)
        else ExitCode.CHILD
    )
    detail = (
        f"{node.node_id} (pid {process.pid}) ended before the cluster was ready: {how_it_ended(process.returncode)}"
    )
    return Failure(code, f"{detail}\n{last_words(node)}\n(all of it: {node.log_path})")


def _report(watch: Watch, node: LocalNode) -> None:
    process = watch.processes[node]
    assert process.returncode is not None
    others = len(watch.running())
    click.echo(
        f"hourwheel dev: {node.node_id} (pid {process.pid}) ended: {how_it_ended(process.returncode)}; {others} go on",
        err=True,
    )
    if not process.returncode < 0:
        click.echo(last_words(node), err=True)
    if not others:
        raise Failure(ExitCode.CHILD, "no node is left")
