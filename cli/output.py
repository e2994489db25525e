"""Results as a table for people or as JSON for programs, chosen by `-o`; and the options every client command shares.

JSON output is the node's document as it came, so that what the API grows shows here without a change. Tables choose
columns and wrap nothing: an id that is cut in two cannot be copied.
"""

import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec

import click

from cli.connection import DEFAULT_URL
from cli.failure import Failure

P = ParamSpec("P")


def show_json(document: object) -> None:
    """Prints one JSON line on stdout."""
    click.echo(json.dumps(document, ensure_ascii=False))


def show_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Prints name and value, one pair a line, values as JSON unless they are text."""
    rows = [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)) for name, value in fields
    ]
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        click.echo(f"{name:<{width}}  {value}")


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table; on anything but a terminal it is as wide as its content."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True, overflow="ignore")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else 400, markup=False, highlight=False)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        click.echo(line.rstrip())


def output_option(function: Callable[P, None]) -> Callable[P, None]:
    """Adds `-o table|json` (parameter `output`); failures follow the choice."""

    @click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="form of the result",
    )
    @functools.wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except Failure as failure:
            failure.as_json = kwargs["output"] == "json"
            raise

    return command


def client_options(function: Callable[P, None]) -> Callable[P, None]:
    """Adds `--url` (or HOURWHEEL_URL), `--timeout` and `-o` to a command that talks to a node.

    The command gets `url` as one text, with commas between several.
    """
    url = click.option(
        "--url",
        envvar="HOURWHEEL_URL",
        multiple=True,
        default=[DEFAULT_URL],
        show_default=True,
        show_envvar=True,
        metavar="URL,...",
        help="any node; of several the next is asked if one cannot be reached",
        callback=lambda context, option, urls: ",".join(urls),
    )
    timeout = click.option(
        "--timeout",
        type=click.FloatRange(min=0.1),
        default=10.0,
        show_default=True,
        help="seconds to wait for an answer",
    )
    wrapped: Any = url(timeout(output_option(function)))
    return wrapped  # type: ignore[no-any-return]
