"""`hourwheel nack TOPIC RECEIPT...`: gives pulled messages back, to be tried again."""

import click

from cli.consume.receipts import run
from cli.output import client_options
from cli.time_option import DURATION, Duration


@click.command()
@click.argument("topic")
@click.argument("receipts", nargs=-1, required=True, metavar="RECEIPT...")
@click.option("--delay", type=Duration(), help=f"due again so long from now: {DURATION} (default: by the retry policy)")
@client_options
def command(topic: str, receipts: tuple[str, ...], delay: int | None, url: str, timeout: float, output: str) -> None:
    """Gives pulled messages of TOPIC back by their receipts ('-': from stdin, one a line)."""
    run(url, timeout, output, topic, "nack", "nacked", receipts, delay=delay)
