"""The nodes of a cluster on this machine: ids, ports, directories, config files, and their start.

`hourwheel dev`, the chaos tests, the demo and the benchmarks all run their nodes in one way: as real `hourwheel serve`
processes with config files. Only this file knows the form of such a file and the start of such a process. So none of
them tests something that a user cannot run.

A node gets its parent's pid and ends with it, even when the parent is killed with -9. No orphan keeps the ports.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

LOOPBACK = "127.0.0.1"
RAFT_PORT_OFFSET = 100


@dataclass(frozen=True)
class LocalNode:
    """One node: its id, its ports and its folder (config, log, data). It listens on `host`. `doors` are the HTTP and
    the Raft port that other nodes connect to instead, if a proxy stands in between."""

    node_id: str
    http_port: int
    raft_port: int
    directory: Path
    host: str = LOOPBACK
    doors: tuple[int, int] | None = None

    @property
    def http(self) -> str:
        """host:port of the HTTP listener."""
        return f"{self.host}:{self.http_port}"

    @property
    def raft(self) -> str:
        """host:port of the Raft listener."""
        return f"{self.host}:{self.raft_port}"

    @property
    def http_seen(self) -> str:
        """host:port of its HTTP listener for other nodes."""
        return f"{self.host}:{self.doors[0] if self.doors else self.http_port}"

    @property
    def raft_seen(self) -> str:
        """host:port of its Raft listener for other nodes."""
        return f"{self.host}:{self.doors[1] if self.doors else self.raft_port}"

    @property
    def url(self) -> str:
        """Base URL of its API."""
        return f"http://{self.http}"

    @property
    def config_path(self) -> Path:
        """Its config file."""
        return self.directory / "node.toml"

    @property
    def log_path(self) -> Path:
        """Its output on stdout and stderr, over all its starts."""
        return self.directory / "node.log"

    @property
    def data_path(self) -> Path:
        """Its data directory."""
        return self.directory / "data"


def by_port(directory: Path, count: int, port: int) -> list[LocalNode]:
    """`count` nodes n1, n2, ...: HTTP on port, port + 1, ..., Raft 100 above."""
    return [
        LocalNode(f"n{i + 1}", port + i, port + RAFT_PORT_OFFSET + i, directory / f"n{i + 1}") for i in range(count)
    ]


def write_config(
    node: LocalNode,
    nodes: Sequence[LocalNode],
    settings: Mapping[str, Mapping[str, object]] | None = None,
    *,
    join: bool = False,
) -> None:
    """Write the node's config file. `settings` are further tables, {table: {key: value}}, merged into those of this
    file. `join`: the node founds no cluster, it is added to one."""
    quoted = json.dumps
    tables: dict[str, dict[str, object]] = {"http": {"listen": node.http}, "raft": {"listen": node.raft}}
    if not ip_address(node.host).is_loopback:
        for server in tables.values():
            server["insecure"] = True
    for table, values in (settings or {}).items():
        tables.setdefault(table, {}).update(values)
    lines = [f"node_id = {quoted(node.node_id)}", f"data_dir = {quoted(str(node.data_path.resolve()))}"]
    if join:
        lines.append("join = true")
    for table, values in tables.items():
        lines += ["", f"[{table}]"] + [f"{key} = {quoted(value)}" for key, value in values.items()]
    for peer in nodes:
        lines += [
            "",
            "[[peers]]",
            f"id = {quoted(peer.node_id)}",
            f"raft = {quoted(peer.raft_seen)}",
            f"http = {quoted(peer.http_seen)}",
        ]
    node.directory.mkdir(parents=True, exist_ok=True)
    node.config_path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def python_path(root: Path) -> list[str]:
    """Where Python finds the code below `root`. The package for clients, `hourwheel`, stands in a folder of its own."""
    return [str(root.resolve()), str(root.resolve() / "client")]


def python_of(root: Path) -> list[str]:
    """Return the command that runs `python -m cli` with the code below `root` and with no other build's. The paths of
    this environment come behind `root`."""
    code = f"import runpy, sys; sys.path[:0] = {python_path(root)}; runpy.run_module('cli', run_name='__main__')"
    return [sys.executable, "-P", "-c", code]


def this_build() -> dict[str, str]:
    """The environment in which `python -m` finds this code, in any directory and with anything installed."""
    path = python_path(Path(__file__).parents[2])
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (*path, os.environ.get("PYTHONPATH"))))}


def start_process(
    node: LocalNode,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    other_build: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start `hourwheel serve` for the node, and append its output to its log file. Return at once, before the node is
    ready. `prefix` is a command such as nsenter, which replaces itself with the command that follows it. `other_build`
    is the directory of another build's code."""
    command = [
        *prefix,
        *(python_of(other_build) if other_build else [sys.executable, "-P", "-m", "cli"]),
        "serve",
        "--config",
        str(node.config_path),
        "--parent",
        str(os.getpid()),
    ]
    with node.log_path.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=this_build() | dict(environment or {}),
            start_new_session=True,
        )


def last_words(node: LocalNode, lines: int = 5) -> str:
    """Return the last lines of the node's log, for a message about its end."""
    try:
        return "\n".join(node.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def how_it_ended(returncode: int) -> str:
    """A process's return code in words."""
    return f"killed by signal {-returncode}" if returncode < 0 else f"exit code {returncode}"
