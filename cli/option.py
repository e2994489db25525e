"""Options that several commands share, and the fields of the contract that they become.

A field that is not given is not sent, so that the node's defaults hold. Spans and times are read by the client
(cli/time_option.py). The node decides if they are in bounds. Options that make up one object (`target`, `retry`) are
gathered here.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import click

from cli.failure import Failure
from cli.time_option import DURATION, TIME, Duration, Time
from node.runtime.exit_code import ExitCode

Command = Callable[..., None]

#: Parameter -> (option, field of `retry`, type, help).
_RETRY: Final[dict[str, tuple[str, str, click.ParamType[int], str]]] = {
    "retry_max_attempts": ("--retry-max-attempts", "max_attempts", click.INT, "attempts before the message is dead"),
    "retry_min_backoff": (
        "--retry-min-backoff",
        "min_backoff",
        Duration(),
        f"wait after the first failure, then twice: {DURATION}",
    ),
    "retry_max_backoff": ("--retry-max-backoff", "max_backoff", Duration(), "the longest wait between two attempts"),
    "retry_max_age": (
        "--retry-max-age",
        "max_age",
        Duration(),
        "no attempt so long after the asked due time (0: no limit)",
    ),
}


def pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    """NAME=VALUE options as a mapping. Raises click's BadParameter."""
    found = {}
    for value in values:
        name, equals, content = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE", param_hint=option)
        found[name] = content
    return found


def retry_options(function: Command) -> Command:
    """Adds `--retry-*`; `retry_fields` gathers them."""
    for parameter, (option, _, kind, help_text) in reversed(_RETRY.items()):
        function = click.option(option, parameter, type=kind, help=help_text)(function)
    return function


def retry_fields(options: Mapping[str, Any]) -> dict[str, object]:
    """The `retry` object of the options given; empty when none was."""
    given = ((field, options[parameter]) for parameter, (_, field, _, _) in _RETRY.items())
    return {field: value for field, value in given if value is not None}


def target_options(function: Command) -> Command:
    """Adds `--target`, `--method`, `--target-header` and `--target-timeout`; `target_fields` gathers them."""
    for decorate in (
        click.option("--target-timeout", type=Duration(), help=f"how long the receiver may take: {DURATION}"),
        click.option(
            "--target-header", "target_headers", multiple=True, metavar="NAME=VALUE", help="sent to the target"
        ),
        click.option("--method", help="of the request to the target (default: POST)"),
        click.option("--target", metavar="URL", help="where a push goes"),
    ):
        function = decorate(function)
    return function


def target_fields(options: Mapping[str, Any]) -> dict[str, object]:
    """The `target` object of the options given; empty when none was."""
    fields: dict[str, object] = {}
    if options["target"] is not None:
        fields["url"] = options["target"]
    if options["method"] is not None:
        fields["method"] = options["method"]
    if options["target_headers"]:
        fields["headers"] = pairs(options["target_headers"], "--target-header")
    if options["target_timeout"] is not None:
        fields["timeout"] = options["target_timeout"]
    return fields


def if_match_option(function: Command) -> Command:
    """Adds `--if-match REVISION`; the command gets `headers`, to be sent with the change."""

    @click.option("--if-match", type=int, metavar="REVISION", help="only if it still has this revision")
    @functools.wraps(function)
    def command(if_match: int | None, **kwargs: Any) -> None:
        function(headers={} if if_match is None else {"If-Match": f'"{if_match}"'}, **kwargs)

    return command


def secret_options(function: Command) -> Command:
    """Adds `--secret` and `--secret-file`; the command gets `secret`, or None."""

    @click.option("--secret", help="whsec_ and base64; other users of this machine may see a command line")
    @click.option("--secret-file", type=click.Path(dir_okay=False), help="a file that holds the secret")
    @functools.wraps(function)
    def command(secret: str | None, secret_file: str | None, **kwargs: Any) -> None:
        if secret is not None and secret_file is not None:
            raise click.UsageError("give --secret or --secret-file, not both")
        if secret_file is not None:
            try:
                with open(secret_file, encoding="utf-8") as file:
                    secret = file.read().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise Failure(ExitCode.USAGE, f"cannot read {secret_file}: {error}") from None
        function(secret=secret, **kwargs)

    return command


def window_options(function: Command) -> Command:
    """Adds `--from`, `--to` and `--tag`, which choose messages by their asked due time; `window_fields` gathers
    them."""
    return _window(function, "asked due time")


def due_options(function: Command) -> Command:
    """The same, by the present due time."""
    return _window(function, "due")


def _window(function: Command, what: str) -> Command:
    for decorate in (
        click.option("--tag", help="only those with this tag"),
        click.option("--to", "until", type=Time(), help=f"{what} before this"),
        click.option("--from", "since", type=Time(), help=f"{what} at or after this: {TIME}"),
    ):
        function = decorate(function)
    return function


def window_fields(options: Mapping[str, Any]) -> dict[str, object]:
    """`from`, `to` and `tag` of the options given."""
    fields: dict[str, object] = {}
    if options["since"] is not None:
        fields["from"] = options["since"]
    if options["until"] is not None:
        fields["to"] = options["until"]
    if options["tag"] is not None:
        fields["tag"] = options["tag"]
    return fields


def count_options(function: Command) -> Command:
    """Adds `[TOPIC]`, `--from`, `--to`, `--tag` and `--state`, which choose messages by due time; `count_query` makes
    the query of them."""
    state = click.option(
        "--state", metavar="STATE,...", help="scheduled, ready, leased, delivered, cancelled, dead, expired"
    )
    return click.argument("topic", required=False)(due_options(state(function)))


def count_query(options: Mapping[str, Any]) -> str:
    """Return the query of the given options, with its `?`. "" if none was given."""
    names = {"topic": "topic", "since": "from", "until": "to", "tag": "tag", "state": "state", "step": "step"}
    names |= {"at": "hour"} | {name: name for name in ("limit", "cursor", "body")}
    given = {name: options[option] for option, name in names.items() if options.get(option) is not None}
    return f"?{urlencode(given)}" if given else ""
