"""`hourwheel cluster`: `status` says who leads, who lags and whose clock is off; `transfer` chooses another leader.

`add` and `remove` change the set of nodes, `snapshot` writes a backup. `upgrade` raises the level, so that the cluster
uses what only the newer build knows.
"""

import time
from typing import Any
from urllib.parse import quote

import click

from cli.connection import Connection
from cli.failure import Failure
from cli.output import client_options, show_fields, show_json, show_table
from cli.time_option import Span
from node.runtime.exit_code import ExitCode

WAIT_LOOK_S = 0.2
"""The time between two looks of `add --wait` for the node's vote."""
COLUMNS = ("id", "role", "state", "http", "raft", "applied_index", "lag", "clock_offset_ms", "reads")


@click.group()
def command() -> None:
    """Looks at the cluster, moves its leadership, changes its nodes."""


@command.command()
@click.option("--local", is_flag=True, help="as the asked node sees it, without asking the leader")
@client_options
def status(local: bool, url: str, timeout: float, output: str) -> None:
    """Shows who leads, and every node.

    Only the leader knows how far the others are and how their clocks run. So a follower's answer is completed with
    that of the leader it names.
    """
    document = Connection(url, timeout).call("GET", "/v1/cluster").document
    if not local:
        document = _by_leader(document, timeout)
    if output == "json":
        show_json(document)
        return
    show_fields(
        (name, document.get(name))
        for name in ("cluster_id", "leader", "term", "commit_index", "level", "dispatch", "lateness_ms")
    )
    click.echo()
    show_table(COLUMNS, [[node.get(column) for column in COLUMNS] for node in document.get("nodes", [])])


def _by_leader(document: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Return the leader's document, if `document` lacks the figures of other nodes. Return `document` if it names no
    leader, or if the leader does not answer."""
    nodes = document.get("nodes", [])
    leader = next((node for node in nodes if node.get("id") == document.get("leader")), None)
    if leader is None or leader.get("http") is None or _has_figures(document, leader["id"]):
        return document
    try:
        whole = Connection(leader["http"], timeout).call("GET", "/v1/cluster").document
    except Failure as failure:
        why = failure.message
    else:
        if whole.get("cluster_id") == document.get("cluster_id") and _has_figures(whole, leader["id"]):
            return whole
        why = f"{leader['id']} at {leader['http']} answers for another cluster, or does not lead"
    click.echo(f"figures of other nodes are missing, only the leader knows them: {why}", err=True)
    return document


def _has_figures(document: dict[str, Any], node_id: str) -> bool:
    """True if the document has the applied index of this node. Only the leader knows those of other nodes."""
    nodes = document.get("nodes", [])
    return any(node.get("id") == node_id and node.get("applied_index") is not None for node in nodes)


@command.command()
@click.option("--to", "to", metavar="NODE", help="who shall lead (default: the best follower)")
@client_options
def transfer(to: str | None, url: str, timeout: float, output: str) -> None:
    """Moves leadership to another node, on purpose and without a pause for an election."""
    request = {} if to is None else {"to": to}
    document = Connection(url, timeout).call("POST", "/v1/cluster/transfer", request).document
    _show(document, output)


@command.command()
@click.option("--directory", metavar="DIR", help="below the node's [backup] directory (default: that one)")
@click.option("--wait", "wait_s", type=Span(least_s=1), default="1h", show_default=True, help="how long it may take")
@client_options
def snapshot(directory: str | None, wait_s: float, url: str, timeout: float, output: str) -> None:
    """Writes a backup: a consistent copy at one log index, on the disk of the node that is asked.

    A follower is the better one to ask. `hourwheel restore` starts a cluster from it.
    """
    request = {} if directory is None else {"directory": directory}
    document = Connection(url, timeout).call("POST", "/v1/cluster/snapshot", request, wait_s=wait_s).document
    _show(document, output)


@command.command()
@click.argument("node_id", metavar="ID")
@click.option("--raft", required=True, metavar="HOST:PORT", help="where other nodes reach its Raft listener")
@click.option("--http", required=True, metavar="HOST:PORT", help="where other nodes reach its HTTP listener")
@click.option("--wait", "wait_s", type=Span(), default="0s", help="how long to wait until it has its vote")
@client_options
def add(node_id: str, raft: str, http: str, wait_s: float, url: str, timeout: float, output: str) -> None:
    """Adds a node, which runs already with `join = true` and an empty directory.

    It is a learner at first, and counts for no majority; the cluster gives it its vote when it has caught up.
    """
    connection = Connection(url, timeout)
    request = {"id": node_id, "raft": raft, "http": http}
    document = connection.call("POST", "/v1/cluster/members", request).document
    if wait_s:
        document |= {"role": _wait_for_vote(connection, node_id, wait_s)}
    _show(document, output)


@command.command()
@click.argument("node_id", metavar="ID")
@client_options
def remove(node_id: str, url: str, timeout: float, output: str) -> None:
    """Removes a node, up or down. It ends by itself, and its id is not given again.

    Refused where those that stay could not go on: too few of them are up, or have caught up.
    """
    _show(Connection(url, timeout).call("DELETE", f"/v1/cluster/members/{quote(node_id, safe='')}").document, output)


@command.command()
@click.option("--level", type=click.IntRange(1, 255), help="how far (default: as far as the node that is asked reads)")
@client_options
def upgrade(level: int | None, url: str, timeout: float, output: str) -> None:
    """Raises the level of the cluster, after which no older build can join it.

    Refused with the name of the node that does not read it, or is down. By default nobody has to ask: the level rises
    when all nodes run the newer build. With `[raft] upgrade = "asked"` it waits for this.
    """
    request = {} if level is None else {"level": level}
    _show(Connection(url, timeout).call("POST", "/v1/cluster/upgrade", request).document, output)


def _wait_for_vote(connection: Connection, node_id: str, wait_s: float) -> str:
    until_s = time.monotonic() + wait_s
    while True:
        nodes = connection.call("GET", "/v1/cluster").document.get("nodes", [])
        role = next((str(node.get("role")) for node in nodes if node.get("id") == node_id), "removed")
        if role != "learner":
            return role
        if time.monotonic() >= until_s:
            detail = f"{node_id} is added and has not caught up within {wait_s:g} s; it gets its vote by itself"
            raise Failure(ExitCode.UNAVAILABLE, detail)
        time.sleep(WAIT_LOOK_S)


def _show(document: dict[str, object], output: str) -> None:
    if output == "json":
        show_json(document)
    else:
        show_fields(document.items())
