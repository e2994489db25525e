"""`hourwheel operation [ID]`: the operations that change many messages, and how far each has come."""

import sys
import time
from typing import Any, Final
from urllib.parse import quote

import click

from cli.connection import Connection
from cli.failure import Failure
from cli.operation.confirm import confirm
from cli.output import client_options, show_answer, show_fields, show_json, show_table

PATH: Final = "/v1/operations"
COLUMNS: Final = ("id", "kind", "state", "topic", "tag", "begun", "matched", "changed", "progress", "note")
#: States of an operation that has not ended. A paused one goes on after a day at the latest.
GOES_ON: Final = ("running", "paused")
#: How often an operation that runs is asked for.
LOOK_S: Final = 0.25


@click.command()
@click.argument("operation_id", metavar="[ID]", required=False)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="at most so many operations")
@click.option("--pause", is_flag=True, help="let operation ID rest, for a day at most")
@click.option("--resume", is_flag=True, help="let operation ID go on")
@click.option("--abort", is_flag=True, help="end operation ID where it stands")
@click.option("--follow", is_flag=True, help="wait for the end of operation ID, with a progress bar")
@client_options
def command(
    operation_id: str | None, limit: int, follow: bool, url: str, timeout: float, output: str, **verbs: bool
) -> None:
    """Shows operation ID, or the newest operations."""
    connection = Connection(url, timeout)
    asked = [name for name, given in verbs.items() if given]
    if len(asked) > 1:
        raise click.UsageError(f"give one of {' and '.join(f'--{name}' for name in asked)}")
    verb = asked[0] if asked else None
    if operation_id is None:
        if follow or verb:
            raise click.UsageError(f"--{verb or 'follow'} needs the id of an operation")
        reply = connection.call("GET", f"{PATH}?limit={limit}")
        if output == "json":
            show_answer(reply.payload)
        else:
            items = reply.document.get("items", [])
            show_table(COLUMNS, [[item.get(column, "") for column in COLUMNS] for item in items])
        return
    path = f"{PATH}/{quote(operation_id, safe='')}"
    reply = connection.call("GET", path) if verb is None else connection.call("POST", f"{path}/{verb}")
    document = reply.document
    show_operation(followed(connection, document) if follow else document, output)


def carry_out(connection: Connection, request: dict[str, object], what: str, *, dry_run: bool, yes: bool) -> Any:
    """Count the messages that match, ask, begin the operation and follow it to its end. Return its document. `what`
    says in the question what becomes of them. Raises Failure."""
    if dry_run or not yes or request["topic"] == "*":
        document = connection.call("POST", PATH, request | {"dry_run": True}).document
        if dry_run or not document.get("matched"):
            return document
        if request["topic"] == "*":
            request = request | {"confirm": document["matched"]}
        if not yes:
            confirm(f"{document['matched']} messages match. {what}?")
    return followed(connection, connection.call("POST", PATH, request).document)


def followed(connection: Connection, document: Any) -> Any:
    """Wait until an operation has ended, and return its document. A progress bar goes to stderr, if that is a
    terminal."""
    if document.get("state") not in GOES_ON:
        return document
    name = document["id"]
    try:
        return _to_its_end(connection, document, f"{PATH}/{quote(name, safe='')}")
    except (Failure, KeyboardInterrupt):
        click.echo(f"{name} goes on; hourwheel operation {name} --follow waits for its end", err=True)
        raise


def _to_its_end(connection: Connection, document: Any, path: str) -> Any:
    with click.progressbar(length=1000, label=f"{document['id']} {document['kind']}", file=sys.stderr) as bar:
        done = 0
        while document.get("state") in GOES_ON:
            time.sleep(LOOK_S)
            document = connection.call("GET", path).document
            now = int(1000 * float(document.get("progress", 0)))
            bar.update(now - done)
            done = now
    return document


def show_operation(document: Any, output: str) -> None:
    """Print an operation, or the count of a dry run. Counts within counts stand on lines of their own."""
    if output == "json":
        show_json(document)
        return
    fields: list[tuple[str, object]] = []
    for name, value in document.items():
        if isinstance(value, dict):
            fields += [(f"{name} {inner}", count) for inner, count in value.items()]
        else:
            fields.append((name, value))
    show_fields(fields)
