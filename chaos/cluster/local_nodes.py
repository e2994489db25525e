"""Where the nodes of a cluster on this machine live: ids, ports, directories, config files, and how one is started.

`hourwheel dev`, the chaos tests, the demo and the benchmarks all run the same thing: real `hourwheel serve` processes
from config files. This is the one place that knows how such a file looks and how such a process is started, so that
none of them tests something a user cannot run.

A node started here is told its parent's pid and ends with it, even when the parent is killed with -9: no orphan keeps
the ports.
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
    """One node: its id, its ports and its folder (config, log, data). `host` is where it listens; `doors` are the HTTP
    and the Raft port that other nodes connect to in place of its own, where something stands in between.
    """

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
        """host:port that other nodes reach its HTTP listener at."""
        return f"{self.host}:{self.doors[0] if self.doors else self.http_port}"

    @property
    def raft_seen(self) -> str:
        """host:port that other nodes reach its Raft listener at."""
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
        """What it wrote on stdout and stderr, over all its starts."""
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
    """Writes the node's config file; `settings` are further tables, {table: {key: value}}, merged into those of this
    file. `join`: the node founds no cluster, it is added to one.
    """
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


def python_of(root: Path) -> list[str]:
    """What `python -m cli` is for the code below `root` and no other: whatever the environment puts on the path comes
    behind it."""
    code = "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module('cli', run_name='__main__')"
    return [sys.executable, "-P", "-c", code, str(root.resolve())]


def this_build() -> dict[str, str]:
    """The environment in which `python -m` finds this code, wherever it is run and whatever is installed."""
    root = str(Path(__file__).resolve().parents[2])
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}


def start_process(
    node: LocalNode,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    other_build: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Starts `hourwheel serve` for the node; its output is appended to its log file. Returns at once: it is not ready
    yet. `prefix` is a command that ends by becoming the one behind it (nsenter). `other_build` is where the code of
    another build lies.
    """
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
    """The end of the node's log, for a report of why it died."""
    try:
        return "\n".join(node.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def how_it_ended(returncode: int) -> str:
    """A process's return code in words."""
    return f"killed by signal {-returncode}" if returncode < 0 else f"exit code {returncode}"
