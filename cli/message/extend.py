"""`hourwheel extend TOPIC RECEIPT...`: keeps messages longer."""

import click

from cli.message.receipts import run
from cli.option import number_or_text
from cli.output import client_options


@click.command()
@click.argument("topic")
@click.argument("receipts", nargs=-1, required=True, metavar="RECEIPT...")
@click.option("--lease", help="how long from now they stay ours: 30s (default: the topic's)")
@client_options
def command(topic: str, receipts: tuple[str, ...], lease: str | None, url: str, timeout: float, output: str) -> None:
    """Lets the leases of pulled messages of TOPIC end later, by their receipts ('-': from stdin, one a line)."""
    longer = None if lease is None else number_or_text(lease)
    run(url, timeout, output, topic, "extend", "extended", receipts, lease=longer)
