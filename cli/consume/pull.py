"""`hourwheel pull TOPIC`: pulls due messages, and acks them only with `--ack`.

With `--ack` the messages are acked after they are printed: a message that this command could not print comes again when
its lease ends.
"""

from urllib.parse import quote

import click

from cli.connection import Connection
from cli.consume.receipts import refuse_left, settle
from cli.near_topics import note_topic
from cli.output import client_options, show_answer, show_table
from cli.shown import body
from cli.time_option import MS_ALONE, S_ALONE, Duration, Span


@click.command()
@click.argument("topic")
@click.option("--max", "count", type=int, default=10, show_default=True, help="at most so many (1 to 1,000)")
@click.option(
    "--wait",
    "wait_s",
    type=Span(most_s=30),
    default="0s",
    show_default=True,
    help=f"how long to wait for the first one ({S_ALONE})",
)
@click.option("--lease", type=Duration(), help=f"how long they stay ours: 30s ({MS_ALONE}; default: the topic's)")
@click.option("--tags", help="only messages with these: 'eu || us', 'eu && vip'")
@click.option("--ack", is_flag=True, help="settle what was printed")
@client_options
def command(
    topic: str,
    count: int,
    wait_s: float,
    lease: int | None,
    tags: str | None,
    ack: bool,
    url: str,
    timeout: float,
    output: str,
) -> None:
    """Takes due messages of TOPIC."""
    connection = Connection(url, timeout)
    request: dict[str, object] = {"max": count, "wait": int(wait_s * 1000)}
    if lease is not None:
        request["lease"] = lease
    if tags is not None:
        request["tags"] = tags
    if wait_s:
        note_topic(url, topic, timeout)
    answer = connection.call("POST", f"/v1/topics/{quote(topic, safe='')}/pull", request, wait_s)
    messages = answer.document.get("messages", [])
    if output == "json":
        show_answer(answer.payload)
    else:
        columns = ("id", "due", "lateness_ms", "attempt", "term", "body", "receipt")
        rows = [
            [
                m.get("id"),
                m.get("due"),
                m.get("lateness_ms"),
                m.get("attempt"),
                m.get("term"),
                body(m),
                m.get("receipt"),
            ]
            for m in messages
        ]
        show_table(columns, rows)
    if not messages and not wait_s:
        note_topic(url, topic, timeout)
    if ack and messages:
        results = settle(connection, topic, "ack", {"receipts": [message["receipt"] for message in messages]})
        refuse_left(results, "acked", len(messages))
