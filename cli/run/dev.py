"""`hourwheel dev`: a whole cluster of real node processes on loopback, for trying things out, killing a leader
included.

A table on stdout names every node's addresses, role and pid, as soon as all are ready (`-o json`: one line). Then the
command watches. A node that ends while the others run is reported and not restarted, because users want to see what the
cluster does without it. SIGTERM or SIGINT ends the nodes, by pid; the data stays.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import shlex
import signal
import socket
import subprocess
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from cli.failure import Failure
from cli.local.local_nodes import (
    LOOPBACK,
    LocalNode,
    by_port,
    how_it_ended,
    last_words,
    start_process,
    write_config,
)
from cli.local.process_end import end_of
from cli.output import output_option
from node.runtime.exit_code import ExitCode

DIRECTORY: Final = "hourwheel-data"
NODES: Final = 3
PORT: Final = 7400
#: The commands that the table offers to try next.
NEXT: Final = (
    """schedule orders '{"order": 7}' --delay 5s""",
    "pull orders --wait 10s --ack",
    "cluster status",
)
READY_S = 10.0
GRACE_S = 15.0
_POLL_S = 0.1
#: A push to this machine is refused unless it is allowed, and here receivers are on this machine.
SETTINGS = {"push": {"allow": ["127.0.0.0/8"]}}


@click.command()
@click.option(
    "--dir",
    "directory",
    default=DIRECTORY,
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="where the data is: made if missing; kept",
)
@click.option("--nodes", type=click.Choice(["1", "3", "5"]), help=f"how many  [default: as in --dir, else {NODES}]")
@click.option(
    "--port",
    type=click.IntRange(1024, 65_000),
    help=f"HTTP of the first; Raft 100 above  [default: as in --dir, else {PORT}]",
)
@click.option("--restart", is_flag=True, help="go on with the data in --dir; refused where there is none")
@output_option
def command(directory: Path, nodes: str | None, port: int | None, restart: bool, output: str) -> None:
    """Runs a cluster on this machine until Ctrl-C or SIGTERM.

    Where --dir holds a cluster already, that one goes on with its data.
    """
    try:
        Path.cwd()
    except OSError as error:
        raise Failure(
            ExitCode.USAGE, f"the current directory is not there: {error.strerror}; change to another"
        ) from None
    before = _read_cluster(directory)
    if restart and before is None:
        raise Failure(ExitCode.USAGE, f"{directory} holds no cluster; leave --restart out to make a new one")
    count, first_port = before or (NODES, PORT)
    if nodes is not None and before is not None and int(nodes) != count:
        detail = f"{directory} holds a cluster of {count}: give --nodes {count}, or another --dir"
        raise Failure(ExitCode.USAGE, detail)
    chosen = by_port(directory, int(nodes or count), port or first_port)
    for node in chosen:
        _refuse_running(node)
    for node in chosen:
        _refuse_taken(node, "HTTP", node.http_port)
        _refuse_taken(node, "Raft", node.raft_port)
    try:
        for node in chosen:
            write_config(node, chosen, SETTINGS)
    except OSError as error:
        detail = f"cannot write in {directory.absolute()}: {error.strerror}"
        raise Failure(ExitCode.DATA, f"{detail}; give --dir with a directory that you may write in") from None
    kept = f"{directory.absolute()} ({'a new cluster' if before is None else 'with the data of before'})"

    def started(watch: "Watch") -> None:
        click.echo(watch.describe() if output == "json" else watch.table(kept))

    asyncio.run(_run(chosen, started))
    where = "" if directory == Path(DIRECTORY) else f" --dir {shlex.quote(str(directory))}"
    click.echo(f"hourwheel dev: stopped; the data is kept in {directory.absolute()}", err=True)
    click.echo(f"`hourwheel dev --restart{where}` goes on with it", err=True)


def _read_cluster(directory: Path) -> tuple[int, int] | None:
    """Return the number of nodes of the cluster that is in this directory already, and the HTTP port of its first node.
    None without a cluster."""
    for path in sorted(directory.glob("n*/node.toml")):
        try:
            peers = tomllib.loads(path.read_text(encoding="utf-8"))["peers"]
            return len(peers), int(peers[0]["http"].rpartition(":")[2])
        except OSError as error:
            raise Failure(ExitCode.DATA, f"cannot read {path}: {error.strerror}; give another --dir") from None
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            detail = f"{path} is no config file that `hourwheel dev` wrote: {error}"
            raise Failure(ExitCode.DATA, f"{detail}; give another --dir") from None
    return None


def _refuse_taken(node: LocalNode, purpose: str, port: int) -> None:
    """Raise Failure if the port is taken. Called before any node is started: another process that listens there may
    answer /readyz in the place of our node."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            detail = f"{node.node_id} cannot listen for {purpose} on {LOOPBACK}:{port}: {error.strerror}"
            raise Failure(ExitCode.ADDRESS, f"{detail}; give another --port") from None


def _refuse_running(node: LocalNode) -> None:
    """Raise Failure if a node runs on this directory. It holds a lock on it as long as it runs.

    Without this check, a second node could start there on other ports and meet the first only at its lock. And the
    config file of a running node must not be written again.
    """
    try:
        lock = os.open(node.data_path / "LOCK", os.O_RDONLY)
    except OSError:
        return  # not made yet; what else may be wrong with it the node itself says
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        detail = f"a cluster runs already on {node.directory.parent.absolute()} ({node.node_id} runs)"
        raise Failure(ExitCode.DATA, f"{detail}; stop that one, or give another --dir and --port") from None
    finally:
        os.close(lock)


class Watch:
    """Starts a process for each node, and watches them. Each node whose process has ended is put into the queue
    `ended`."""

    def __init__(self, nodes: list[LocalNode]) -> None:
        self.processes = {node: start_process(node) for node in nodes}
        self.ended: asyncio.Queue[LocalNode] = asyncio.Queue()
        self._collecting = [asyncio.create_task(self._collect(*each)) for each in self.processes.items()]

    async def _collect(self, node: LocalNode, process: subprocess.Popen[bytes]) -> None:
        await end_of(process)
        self.ended.put_nowait(node)

    def running(self) -> list[subprocess.Popen[bytes]]:
        """Processes that have not ended."""
        return [process for process in self.processes.values() if process.returncode is None]

    def describe(self) -> str:
        """Return the line of JSON about all nodes."""
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

    def table(self, kept: str) -> str:
        """Return the nodes as a table, with where the data is (`kept`), how to stop, and what to try next."""
        nodes = list(self.processes)
        roles = _roles(nodes)
        rows = [("node", "http", "raft", "role", "pid")]
        rows += [
            (node.node_id, node.url, node.raft, roles.get(node.node_id, "-"), str(process.pid))
            for node, process in self.processes.items()
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        url = "" if nodes[0].http_port == PORT else f" --url {nodes[0].url}"
        tried = [f"  hourwheel {words}{url}" for words in NEXT]
        stop = "Ctrl-C stops all nodes and keeps the data. In another terminal, try next:"
        return "\n".join([f"data in {kept}", "", *lines, "", stop, "", *tried])

    async def end(self) -> None:
        """Send SIGTERM to each process that runs, and SIGKILL to those that still run after GRACE_S."""
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


def _roles(nodes: list[LocalNode]) -> dict[str, str]:
    """Each node's role, as the first that answers sees it; empty if none does."""
    for node in nodes:
        try:
            with urllib.request.urlopen(f"{node.url}/v1/cluster", timeout=1) as answer:
                return {each["id"]: each["role"] for each in json.load(answer)["nodes"]}
        except (OSError, ValueError, LookupError):
            continue
    return {}


async def _all_ready(nodes: list[LocalNode]) -> None:
    """Returns when every node answers /readyz with 200."""
    waiting = list(nodes)
    while waiting:
        waiting = [node for node in waiting if not await asyncio.to_thread(_is_ready, node)]
        await asyncio.sleep(_POLL_S)


async def _run(nodes: list[LocalNode], started: Callable[[Watch], None]) -> None:
    """Run the nodes until a signal. `started` is called when all are ready, or after READY_S if some are not. Raises
    Failure if a node ends before that."""
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
            await asyncio.to_thread(started, watch)
            if ready.done():
                ready.result()  # an error of the check itself ends the command
            else:
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
