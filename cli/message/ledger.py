"""`hourwheel ledger [TOPIC]`: what became of the messages that fell due in a range of time, by the nodes' records.

It shows counts by default, which a user looks at first; `--list` shows the messages, one a line. If the answer is not
complete, because a node is down or a power cut took records, stderr says so in both cases.
"""

from typing import Any
from urllib.parse import urlencode

import click

from cli.connection import Connection
from cli.output import client_options, show_fields, show_json, show_table
from cli.time_option import TIME, Time

COLUMNS = ("id", "topic", "class", "hand_overs", "due", "lateness_ms", "settled", "flags", "causes")
DELIVERIES = ("at", "node", "term", "attempt", "mode", "outcome", "ended", "code")
CHANGES = ("from_term", "to_term", "duplicates", "span_ms")
#: The groups of counts that follow the classes in a summary, in the order to show them. Only classes are shown with a
#: count of zero.
COUNTS = ("flags", "late_causes", "causes", "lost")


@click.command()
@click.argument("topic", required=False)
@click.option("--from", "since", type=Time(), help=f"due at or after this: {TIME}  [default: an hour before --to]")
@click.option("--to", "until", type=Time(), help="due before this  [default: now]")
@click.option("--class", "classes", metavar="CLASS[,CLASS]", help="only these, such as delivered_more,lost (lists)")
@click.option("--list", "lists", is_flag=True, help="the messages, not their counts")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="at most so many a page")
@click.option("--cursor", help="the next_cursor of the page before (lists)")
@click.option("--all", "everything", is_flag=True, help="all pages (lists)")
@client_options
def command(
    topic: str | None,
    since: int | str | None,
    until: int | str | None,
    classes: str | None,
    lists: bool,
    limit: int,
    cursor: str | None,
    everything: bool,
    url: str,
    timeout: float,
    output: str,
) -> None:
    """Says what became of the messages that fell due in a window, of TOPIC or of all.

    How many were delivered once or more than once, dead, cancelled, expired, pending, in flight, lost; and why any
    came twice.
    """
    connection = Connection(url, timeout)
    given: dict[str, object] = {"from": since, "to": until, "topic": topic}
    window: dict[str, object] = {name: text for name, text in given.items() if text is not None}
    if not (lists or classes or cursor or everything):
        query = f"?{urlencode(window)}" if window else ""
        _show_summary(connection.call("GET", f"/v1/ledger/summary{query}").document, output)
        return
    window |= {"limit": limit} | ({"class": classes} if classes is not None else {})
    items: list[dict[str, Any]] = []
    while True:
        page = window | ({"cursor": cursor} if cursor is not None else {})
        document = connection.call("GET", f"/v1/ledger?{urlencode(page)}").document
        items += document.get("items", [])
        cursor = document.get("next_cursor")
        # The next page is of the same window, also when it ended at the moment of the first.
        window |= {"from": document["window"]["from"], "to": document["window"]["to"]}
        if cursor is None or not everything:
            break
    if output == "json":
        show_json(document | {"items": items})
        return
    show_table(COLUMNS, [[_cell(item, column) for column in COLUMNS] for item in items])
    if cursor is not None:
        click.echo(f"more: --cursor {cursor} --from {window['from']} --to {window['to']}", err=True)
    _show_missing(document["window"])


def _cell(item: dict[str, Any], column: str) -> object:
    if column == "causes":
        return " ".join(each["cause"] for each in item.get("duplicates", []))
    value = item.get(column, "")
    return " ".join(value) if isinstance(value, list) else "" if value is None else value


def _show_summary(document: dict[str, Any], output: str) -> None:
    if output == "json":
        show_json(document)
        return
    window = document["window"]
    show_fields([("from", window["from"]), ("to", window["to"]), ("scheduled", document["scheduled"])])
    show_fields((f"  {name}", count) for name, count in document["classes"].items())
    for group in COUNTS:
        counted = [(f"  {name}", count) for name, count in document.get(group, {}).items() if count]
        if counted:
            click.echo(group.replace("_", " "))
            show_fields(counted)
    changes = document.get("term_changes", [])
    if changes:
        click.echo("duplicates by change of terms")
        show_table(CHANGES, [[change.get(column, "") for column in CHANGES] for change in changes])
    _show_missing(window)


def show_message_ledger(ledger: dict[str, Any]) -> None:
    """Prints what the ledger says of one message."""
    if ledger.get("class") is None:
        click.echo(f"ledger  {ledger.get('why', '')}")
        return
    flags = " ".join(ledger.get("flags", []))
    show_fields([("ledger", ledger["class"] + (f"  ({flags})" if flags else ""))])
    deliveries = ledger.get("deliveries", [])
    if deliveries:
        show_table(DELIVERIES, [[_cell(each, column) for column in DELIVERIES] for each in deliveries])
    for each in ledger.get("duplicates", []):
        before = each["repeats"]
        of = f"message {before['id']}" if "id" in before else f"term {before['term']}, attempt {before['attempt']}"
        click.echo(f"duplicate  {each['cause']}: term {each['term']}, attempt {each['attempt']} repeats {of}")
    _show_missing(ledger.get("window", {}))


def _show_missing(window: dict[str, Any]) -> None:
    """Print which accounts were missing when the messages were judged."""
    if window.get("removed_until"):
        click.echo(f"missing: hours before {window['removed_until']}, which were removed by age", err=True)
    for each in window.get("unreachable", []):
        click.echo(f"missing: the account of {each['node']}, which {each['why']}", err=True)
    for each in window.get("gaps", []):
        who = each["node"] or "the cluster before, or a leader that no account tells of,"
        click.echo(f"missing: what {who} did from {each['from']} to {each['to']}", err=True)
