"""`hourwheel extend TOPIC RECEIPT...`: makes the leases of pulled messages longer."""

import click

from cli.consume.receipts import run
from cli.output import client_options
from cli.time_option import Duration


@click.command()
@click.argument("topic")
@click.argument("receipts", nargs=-1, required=True, metavar="RECEIPT...")
@click.option("--lease", type=Duration(), help="how long from now they stay ours: 30s (default: the topic's)")
@client_options
def command(topic: str, receipts: tuple[str, ...], lease: int | None, url: str, timeout: float, output: str) -> None:
    """Lets the leases of pulled messages of TOPIC end later, by their receipts ('-': from stdin, one a line)."""
    run(url, timeout, output, topic, "extend", "extended", receipts, lease=lease)
