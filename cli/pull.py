"""`hourwheel pull TOPIC`: takes what is due, and acks it only when told to.

With `--ack` the messages are acked after they are printed: a message this command did not manage to print comes again
when its lease ends.
"""

from urllib.parse import quote

import click

from cli.connection import Connection
from cli.exit_code import ExitCode
from cli.failure import Failure
from cli.output import client_options, show_json, show_table


def _content(message: dict[str, object]) -> object:
    return message["body_base64"] if "body_base64" in message else message.get("body")


@click.command()
@click.argument("topic")
@click.option("--max", "count", type=int, default=10, show_default=True, help="at most so many (1 to 1,000)")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0, 30),
    default=0.0,
    show_default=True,
    help="seconds to wait for the first one",
)
@click.option("--lease", help="how long they stay ours: 30s (default: the topic's)")
@click.option("--ack", is_flag=True, help="settle what was printed")
@client_options
def command(
    topic: str, count: int, wait_s: float, lease: str | None, ack: bool, url: str, timeout: float, output: str
) -> None:
    """Takes due messages of TOPIC."""
    connection = Connection(url, timeout)
    path = f"/v1/topics/{quote(topic, safe='')}"
    request: dict[str, object] = {"max": count, "wait": int(wait_s * 1000)} | ({"lease": lease} if lease else {})
    document = connection.call("POST", f"{path}/pull", request, wait_s).document
    messages = document.get("messages", [])
    if output == "json":
        show_json(document)
    else:
        columns = ("id", "due", "lateness_ms", "attempt", "term", "body", "receipt")
        rows = [
            [
                m.get("id"),
                m.get("due"),
                m.get("lateness_ms"),
                m.get("attempt"),
                m.get("term"),
                _content(m),
                m.get("receipt"),
            ]
            for m in messages
        ]
        show_table(columns, rows)
    if ack and messages:
        results = connection.call("POST", f"{path}/ack", {"receipts": [m["receipt"] for m in messages]}).document.get(
            "results", []
        )
        left = [result for result in results if result.get("result") != "acked"]
        if left or len(results) != len(messages):
            detail = (
                "; ".join(f"{result.get('receipt')}: {result.get('result')}" for result in left)
                or "an answer is missing"
            )
            raise Failure(
                ExitCode.CONFLICT, f"{len(messages) - len(results) + len(left)} of {len(messages)} not acked: {detail}"
            )
