"""`hourwheel redrive TOPIC...`: dead messages are due again, now, their attempts counted anew."""

from typing import Any

import click

from cli.operation.many import many_options, move_many


@click.command()
@click.option("--reason", help="only those that died of it, such as http-503 or timeout")
@many_options(ended=True)
def command(reason: str | None, **options: Any) -> None:
    """Makes the dead messages of TOPIC due now; asks first, with their number."""
    move_many("redrive", "Make these dead messages due now", options, reason=reason)
