"""`hourwheel release TOPIC...`: messages that are not delivered yet are due now."""

from typing import Any

import click

from cli.operation.many import many_options, move_many


@click.command()
@many_options()
def command(**options: Any) -> None:
    """Makes all messages of TOPIC that match and have not ended due now; asks first, with their number."""
    move_many("release", "Make them due now", options)
