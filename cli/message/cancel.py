"""`hourwheel cancel ID`: after exit 0 no delivery of the message starts. `hourwheel cancel --topic TOPIC` cancels many.

A wrong filter would cancel messages that are wanted. So the command first counts the messages, and asks the user.
"""

from typing import Any
from urllib.parse import quote

import click

from cli.connection import Connection
from cli.operation.many import topic_field
from cli.operation.operation import carry_out, show_operation
from cli.option import due_options, if_match_option, window_fields
from cli.output import client_options, show_fields, show_json


@click.command()
@click.argument("message_id", metavar="[ID]", required=False)
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="cancel many: of this topic; may be repeated")
@click.option("--all-topics", is_flag=True, help="cancel many: of all topics")
@due_options
@click.option("--note", help="for people: why")
@click.option("--dry-run", is_flag=True, help="only count them")
@click.option("--yes", is_flag=True, help="do not ask")
@if_match_option
@client_options
def command(
    message_id: str | None, headers: dict[str, str], url: str, timeout: float, output: str, **options: Any
) -> None:
    """Cancels the message ID; says how many attempts were made before.

    With --topic or --all-topics it cancels all messages that match and have not ended. It asks first, with their
    number.
    """
    connection = Connection(url, timeout)
    many = options["topics"] or options["all_topics"]
    if message_id is not None:
        given = [name for name in ("since", "until", "tag", "note", "dry_run", "yes") if options[name]]
        if many or given:
            raise click.UsageError("give the ID of one message, or what chooses many (--topic), not both")
        document = connection.call("DELETE", f"/v1/messages/{quote(message_id, safe='')}", headers=headers).document
        if output == "json":
            show_json(document)
        else:
            show_fields(document.items())
        return
    if not many:
        raise click.UsageError("say which: the ID of a message, or --topic TOPIC, or --all-topics")
    if headers:
        raise click.UsageError("--if-match goes with the ID of one message")
    topic = topic_field(options["topics"], all_topics=options["all_topics"])
    request: dict[str, object] = {"kind": "cancel", "topic": topic} | window_fields(options)
    if options["note"] is not None:
        request["note"] = options["note"]
    document = carry_out(connection, request, "Cancel them", dry_run=options["dry_run"], yes=options["yes"])
    show_operation(document, output)
