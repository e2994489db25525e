"""`hourwheel histogram [TOPIC]`: when messages are due, as numbers and as bars.

Without --step the command chooses a step that fits the range. If --from or --to is missing, it finds the range first.
It counts in coarse steps, and then in finer steps over the time in which there are messages.
"""

import itertools
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import click

from cli.connection import Connection
from cli.option import count_options, count_query
from cli.output import client_options, show_json, show_table
from cli.time_option import Duration

#: Characters of the longest bar.
BAR: Final = 50
#: So many empty buckets in a row have a line each.
EMPTY_MAX: Final = 3
#: The steps to choose from, and the most lines that a chosen one makes.
STEPS_MS: Final[dict[str, int]] = {
    "1s": 1_000, "5s": 5_000, "15s": 15_000, "1m": 60_000, "5m": 300_000, "15m": 900_000, "1h": 3_600_000,
    "3h": 10_800_000, "6h": 21_600_000, "12h": 43_200_000, "1d": 86_400_000, "7d": 604_800_000, "30d": 2_592_000_000,
}  # fmt: skip
LINES_MAX: Final = 48
COARSE: Final = "30d"
#: The most times that the range is narrowed. Four times lead from months to seconds.
LOOKS_MAX: Final = 4


@click.command()
@count_options
@click.option("--step", type=Duration(), help="of one bucket: 1s 15m 1h  [default: by the range; with -o json 1m]")
@client_options
def command(url: str, timeout: float, output: str, **options: Any) -> None:
    """Shows how many messages of TOPIC, or of all topics, are due when; at most 1,000 buckets."""
    connection = Connection(url, timeout)

    def counted(changed: Mapping[str, object]) -> dict[str, Any]:
        query = count_query({**options, **changed})
        return connection.call("GET", f"/v1/messages/histogram{query}").document

    if output == "json":
        show_json(counted({}))
        return
    buckets, step = _chosen(counted, options) if options["step"] is None else (counted({}).get("buckets", []), None)
    most = max((bucket["count"] for bucket in buckets), default=0)
    show_table(("from", "count", ""), _rows(buckets, most))
    if step is not None and buckets:
        click.echo(f"each line is {step}; --step chooses another", err=True)


def _rows(buckets: list[dict[str, Any]], most: int) -> Iterator[tuple[str, object, str]]:
    """A line for each bucket, and one for several in a row that are empty."""
    for empty, run in itertools.groupby(buckets, lambda bucket: bucket["count"] == 0):
        shown = list(run)
        if empty and len(shown) > EMPTY_MAX:
            yield "...", f"{len(shown)} times 0", ""
            continue
        for bucket in shown:
            yield bucket["from"], bucket["count"], "#" * (-(-BAR * bucket["count"] // most) if most else 0)


def step_of(range_ms: int) -> str:
    """The finest step that shows a range in LINES_MAX lines."""
    return next((name for name, step_ms in STEPS_MS.items() if range_ms <= LINES_MAX * step_ms), COARSE)


def _chosen(counted: Any, options: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Return the buckets of a step that fits the range, and the step's name."""
    since, until = _ms(options["since"]), _ms(options["until"])
    step = step_of(until - since) if since is not None and until is not None else COARSE
    buckets: list[dict[str, Any]] = counted({"step": step}).get("buckets", [])
    for _ in range(LOOKS_MAX):
        if (since is not None and until is not None) or not (full := list(_full(buckets))):
            break
        first = full[0] if since is None else since
        end = full[-1] + STEPS_MS[step] if until is None else until
        finer = step_of(end - first)
        if STEPS_MS[finer] >= STEPS_MS[step]:
            break
        step, given = finer, {"since": options["since"] or first, "until": options["until"] or end}
        buckets = counted({"step": step} | given).get("buckets", [])
    return buckets, step


def _full(buckets: list[dict[str, Any]]) -> Iterator[int]:
    """Yield the begin of each bucket that has messages, in ms since 1970."""
    return (begin for bucket in buckets if bucket["count"] and (begin := _ms(bucket["from"])) is not None)


def _ms(when: int | str | None) -> int | None:
    """Return the milliseconds since 1970 of an option or a field, exact enough to choose a step by. None for a text
    that is no time."""
    if not isinstance(when, str):
        return when
    try:
        return int(datetime.fromisoformat(when.upper()).timestamp() * 1000)
    except ValueError:
        return None
