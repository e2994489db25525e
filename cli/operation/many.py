"""Options of the commands that move many messages, the operation that they ask for, and its way to the end.

A wrong filter would move messages that are to stay. So a command first counts the messages, and asks the user.
"""

from collections.abc import Callable, Mapping
from typing import Any

import click

from cli.connection import Connection
from cli.operation.operation import carry_out, show_operation
from cli.option import due_options, window_fields, window_options
from cli.output import client_options

Command = Callable[..., None]


def many_options(*, ended: bool = False) -> Callable[[Command], Command]:
    """Adds `TOPIC...` and the options that choose messages; `move_many` reads them. `ended`: they have ended, so their
    window is of the due times that were asked for."""

    def decorate(function: Command) -> Command:
        for option in (
            client_options,
            click.option("--yes", is_flag=True, help="do not ask"),
            click.option("--dry-run", is_flag=True, help="only count them"),
            click.option("--note", help="for people: why"),
            click.option("--rate", type=click.IntRange(min=1), metavar="N", help="at most N messages a second"),
            window_options if ended else due_options,
            click.option("--all-topics", is_flag=True, help="of all topics"),
            click.argument("topics", metavar="[TOPIC]...", nargs=-1),
        ):
            function = option(function)
        return function

    return decorate


def move_many(kind: str, what: str, options: Mapping[str, Any], **more: object) -> None:
    """Carry out an operation of this kind, and print it. `what` says in the question what becomes of the messages.
    `more` are further fields of the request."""
    topic = topic_field(options["topics"], all_topics=options["all_topics"])
    request: dict[str, object] = {"kind": kind, "topic": topic}
    request |= window_fields(options) | {name: value for name, value in more.items() if value is not None}
    request |= {name: options[name] for name in ("rate", "note") if options[name] is not None}
    connection = Connection(options["url"], options["timeout"])
    document = carry_out(connection, request, what, dry_run=options["dry_run"], yes=options["yes"])
    show_operation(document, options["output"])


def topic_field(topics: tuple[str, ...], *, all_topics: bool) -> object:
    """The `topic` of a request: a name, a list of names, or "*". Raises UsageError unless exactly one is said."""
    if not topics and not all_topics:
        raise click.UsageError("say which: topics, or --all-topics")
    if topics and all_topics:
        raise click.UsageError("give topics or --all-topics, not both")
    if all_topics:
        return "*"
    return topics[0] if len(topics) == 1 else list(topics)
