"""Results as a table for people or as JSON for programs, chosen by `-o`; and the options every client command shares.

JSON output is the node's document as it came, so that later members of the API are shown without a change here. Tables
show chosen columns and wrap no cell: an id that is cut in two cannot be copied.
"""

import functools
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, ParamSpec

import click

from cli.connection import DEFAULT_URL
from cli.failure import Failure
from cli.near_topics import name_near_topics
from cli.shown import field
from cli.time_option import S_ALONE, Span
from node.runtime.exit_code import ExitCode

P = ParamSpec("P")

#: The one column that is cut to the width of the terminal, and the least number of its characters that stay.
BODY: Final = "body"
BODY_MIN: Final = 20


def show_json(document: object) -> None:
    """Prints one JSON line on stdout."""
    click.echo(json.dumps(document, ensure_ascii=False))


def say_settling(count: int) -> None:
    """Says on stderr that running cancels have cancelled some of the messages shown or counted."""
    if count:
        click.echo(f"{count} of these are cancelled already: an operation has not reached them yet", err=True)


def show_answer(payload: bytes) -> None:
    """Prints an answer as one JSON line. Bodies in it stay as they were written: numbers, and members named twice."""
    import msgspec

    try:
        click.echo(msgspec.json.format(payload, indent=-1))
    except msgspec.DecodeError as error:
        raise Failure(ExitCode.FAILED, f"the answer is no JSON: {error}") from None


def show_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Prints name and value in words, one pair a line, and beside a time how far off it is."""
    now_ms = _now_ms()
    rows = [(name, field(name, value, now_ms)) for name, value in fields]
    width = max((len(name) for name, _ in rows), default=0)
    room = _terminal_width(width + 2)
    for name, value in rows:
        click.echo(f"{name:<{width}}  {_cut(value, room) if name == BODY else value}")


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table, as wide as its content. On a terminal the bodies are cut so that a row fits into a line."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    now_ms = _now_ms()
    cells = [[field(name, cell, now_ms) for name, cell in zip(columns, row, strict=True)] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    if BODY in columns:
        place = columns.index(BODY)
        room = _terminal_width(sum(widths) - widths[place] + 2 * (len(widths) - 1))
        for row in cells:
            row[place] = _cut(row[place], room)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True, overflow="ignore")
    for row in cells:
        table.add_row(*row)
    console = Console(width=sum(widths) + 2 * len(widths), markup=False, highlight=False)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        click.echo(line.rstrip())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _terminal_width(taken: int) -> int | None:
    """The characters that a line of the terminal has beside `taken`; None where output goes elsewhere."""
    return max(BODY_MIN, shutil.get_terminal_size().columns - taken) if sys.stdout.isatty() else None


def _cut(text: str, room: int | None) -> str:
    return text if room is None or len(text) <= room else text[: room - 3] + "..."


def output_option(function: Callable[P, None]) -> Callable[P, None]:
    """Add `-o table|json` (parameter `output`). A Failure of the command is shown in the chosen form too."""

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
            name_near_topics(failure, kwargs)
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
        type=Span(least_s=0.1),
        default="10s",
        show_default=True,
        help=f"how long to wait for an answer ({S_ALONE})",
    )
    wrapped: Any = url(timeout(output_option(function)))
    return wrapped  # type: ignore[no-any-return]
