"""`hourwheel topic put|patch|get|list|delete`: a topic's settings.

`put` gives every setting that is not named its default, `patch` leaves it as it is; both show the topic as it is then.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import click

from cli.connection import Connection
from cli.option import (
    Command,
    if_match_option,
    retry_fields,
    retry_options,
    secret_options,
    target_fields,
    target_options,
)
from cli.output import client_options, show_fields, show_json, show_table
from cli.time_option import Duration


@click.group()
def command() -> None:
    """Shows and changes the settings of topics."""


def _path(name: str) -> str:
    return f"/v1/topics/{quote(name, safe='')}"


def _settings_options(function: Command) -> Command:
    """Add an option for every setting of a topic."""
    decorators: tuple[Callable[[Command], Command], ...] = (
        secret_options,
        click.option("--no-dead-letter", is_flag=True, help="none: dead messages stay where they are"),
        click.option("--dead-letter", metavar="TOPIC", help="where copies of dead messages go"),
        click.option("--no-retry", is_flag=True, help="the default retry policy"),
        retry_options,
        click.option("--no-target", is_flag=True, help="no target"),
        target_options,
        click.option("--paused/--resumed", "paused", default=None, help="paused: nothing is delivered"),
        click.option("--handover", help="fast"),
        click.option("--lease", type=Duration(), help="of a pull that asks for none: 1s to 12h"),
        click.option("--mode", help="pull or push"),
    )
    for decorate in decorators:
        function = decorate(function)
    return function


def _settings(secret: str | None, options: dict[str, Any]) -> dict[str, object]:
    """Return the request document of the options that were given."""
    document: dict[str, object] = {
        name: options[name] for name in ("mode", "handover", "paused", "dead_letter") if options[name] is not None
    }
    if options["lease"] is not None:
        document["lease"] = options["lease"]
    target = target_fields(options) | ({"secret": secret} if secret is not None else {})
    for name, value in (("target", target), ("retry", retry_fields(options)), ("dead_letter", options["dead_letter"])):
        if options[f"no_{name}"]:
            if value:
                raise click.UsageError(f"--no-{name.replace('_', '-')} takes away what another option sets")
            document[name] = None
        elif value:
            document[name] = value
    return document


def _change(method: str, name: str, secret: str | None, options: dict[str, Any]) -> None:
    connection = Connection(options["url"], options["timeout"])
    document = connection.call(method, _path(name), _settings(secret, options), headers=options["headers"]).document
    _show(document, options["output"])


def _show(document: dict[str, Any], output: str) -> None:
    if output == "json":
        show_json(document)
    else:
        show_fields((name, value) for name, value in document.items() if value is not None)


@command.command()
@click.argument("name", metavar="TOPIC")
@_settings_options
@if_match_option
@client_options
def put(name: str, secret: str | None, **options: Any) -> None:
    """Sets all settings of TOPIC: those that are not given get their defaults. Creates TOPIC if it is not there."""
    _change("PUT", name, secret, options)


@command.command()
@click.argument("name", metavar="TOPIC")
@_settings_options
@if_match_option
@client_options
def patch(name: str, secret: str | None, **options: Any) -> None:
    """Changes the given settings of TOPIC. Of target and retry it changes only the given fields."""
    _change("PATCH", name, secret, options)


@command.command()
@click.argument("name", metavar="TOPIC")
@client_options
def get(name: str, url: str, timeout: float, output: str) -> None:
    """Shows the settings of TOPIC."""
    _show(Connection(url, timeout).call("GET", _path(name)).document, output)


@command.command(name="list")
@client_options
def list_all(url: str, timeout: float, output: str) -> None:
    """Shows all topics, with their messages by state."""
    document = Connection(url, timeout).call("GET", "/v1/topics").document
    if output == "json":
        show_json(document)
        return
    items = document.get("items", [])
    states = list(dict.fromkeys(state for item in items for state in item.get("counts") or {}))
    rows = [
        [item.get(name, "") for name in ("topic", "mode", "paused")]
        + [(item.get("target") or {}).get("url", ""), item.get("dead_letter") or ""]
        + [(item.get("counts") or {}).get(state, 0) for state in states]
        for item in items
    ]
    show_table(("topic", "mode", "paused", "target", "dead_letter", *states), rows)


@command.command()
@click.argument("name", metavar="TOPIC")
@if_match_option
@client_options
def delete(name: str, headers: dict[str, str], url: str, timeout: float, output: str) -> None:
    """Deletes TOPIC; refused while it has messages that are not settled."""
    _show(Connection(url, timeout).call("DELETE", _path(name), headers=headers).document, output)
