"""`hourwheel resend TOPIC...`: what was delivered is delivered again, for a receiver that lost its data."""

from typing import Any

import click

from cli.operation.many import many_options, move_many


@click.command()
@many_options(ended=True)
def command(**options: Any) -> None:
    """Delivers the delivered messages of TOPIC again, with their ids; asks first, with their number."""
    move_many("resend", "Deliver them again", options)
