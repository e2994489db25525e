"""`hourwheel shift TOPIC... --by -30m`: messages that are not delivered yet get another due time."""

from typing import Any

import click

from cli.operation.many import many_options, move_many
from cli.time_option import DURATION, TIME, ShiftDuration, Time


@click.command()
@click.option("--by", "by_ms", type=ShiftDuration(), help=f"how far: {DURATION}, with a minus for earlier")
@click.option("--to-due", type=Time(), help=f"to this time: {TIME}")
@many_options()
def command(by_ms: int | None, to_due: int | str | None, **options: Any) -> None:
    """Moves all messages of TOPIC that match and have not ended; asks first, with their number.

    No message gets a due time before now.
    """
    if (by_ms is None) == (to_due is None):
        raise click.UsageError("give exactly one of --by and --to-due")
    move_many("shift", "Move them", options, by=by_ms, to_due=to_due)
