"""`hourwheel schedule TOPIC BODY`: one message, by delay or at a time.

Only the node checks topic, delay and key: its answer names the field and the limit.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any

import click

from cli.connection import Connection
from cli.failure import Failure
from cli.option import pairs, retry_fields, retry_options, target_fields, target_options
from cli.output import client_options, show_fields, show_json
from cli.time_option import DURATION, MS_ALONE, TIME, Duration, Time
from node.runtime.exit_code import ExitCode


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def _content(body: str | None, text: str | None, file: str | None, content_type: str | None) -> dict[str, object]:
    """Return the fields of the request for a body from --text or --file. BODY gives no field: it is only checked here,
    and `_encode` puts it into the request as it was written."""
    if sum(value is not None for value in (body, text, file)) != 1:
        raise click.UsageError("give exactly one of BODY (JSON), --text and --file")
    if body is not None:
        if content_type is not None:
            raise click.UsageError("--content-type goes with --text or --file; BODY is JSON")
        try:
            json.loads(body, parse_constant=_no_constant, parse_int=str, parse_float=str)
        except (ValueError, RecursionError) as error:
            raise click.BadParameter(f"not JSON: {error}; use --text for plain text", param_hint="BODY") from None
        return {}
    if text is not None:
        raw = text.encode()
    else:
        assert file is not None
        try:
            raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        except OSError as error:
            raise Failure(ExitCode.USAGE, f"cannot read {file}: {error.strerror}") from None
    default_type = "application/octet-stream" if text is None else "text/plain; charset=utf-8"
    return {"body_base64": base64.b64encode(raw).decode(), "content_type": content_type or default_type}


def _encode(request: dict[str, object], body: str | None) -> bytes:
    """Return the request, which is not empty, as JSON. BODY is put in as it was written: decoded and encoded again, 1E2
    would become 100.0."""
    encoded = json.dumps(request, ensure_ascii=False)
    return (encoded if body is None else f'{encoded[:-1]}, "body": {body}}}').encode()


@click.command()
@click.argument("topic")
@click.argument("body", required=False)
@click.option("--text", help="the body as plain text")
@click.option("--file", help="the body from a file, byte for byte ('-' is stdin)")
@click.option("--content-type", help="of --text or --file")
@click.option("--delay", type=Duration(), help=f"how long from now: {DURATION} ({MS_ALONE})")
@click.option("--at", "deliver_at", type=Time(), help=f"when: {TIME}")
@click.option("--delay-level", type=int, help="the n-th of the node's delay levels, from 1: 1s 5s 10s 30s 1m 2m ...")
@click.option("--tag", "tags", multiple=True, help="may be given several times")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="delivered with it")
@click.option("--key", help="makes the request safe to send again, unless it replaces or extends")
@click.option("--on-conflict", help="when another message has the key: reject, keep, replace, extend")
@click.option("--max-wait", type=Duration(), help="with extend: due at most so long after it was first scheduled")
@click.option("--extend-body", help="with extend: last (of this request) or first (unchanged)")
@target_options
@retry_options
@client_options
def command(
    topic: str,
    body: str | None,
    text: str | None,
    file: str | None,
    content_type: str | None,
    url: str,
    timeout: float,
    output: str,
    **options: Any,
) -> None:
    """Schedules one message on TOPIC with BODY (JSON); without --delay, --delay-level or --at it is due now."""
    request: dict[str, object] = {"topic": topic} | _content(body, text, file, content_type)
    for name in ("delay", "deliver_at", "delay_level", "key", "on_conflict"):
        if options[name] is not None:
            request[name] = options[name]
    if options["tags"]:
        request["tags"] = list(options["tags"])
    if options["headers"]:
        request["headers"] = pairs(options["headers"], "--header")
    for name, fields in (("target", target_fields(options)), ("retry", retry_fields(options))):
        if fields:
            request[name] = fields
    extend = {name: options[option] for name, option in (("max_wait", "max_wait"), ("body", "extend_body"))}
    if any(value is not None for value in extend.values()):
        request["extend"] = {name: value for name, value in extend.items() if value is not None}
    sent = _encode(request, body)
    again = options["key"] is not None and options["on_conflict"] not in ("replace", "extend")  # a new wish each time
    answer = Connection(url, timeout).call("POST", "/v1/messages", sent, keyed=again)
    document = answer.document
    replayed = answer.headers.get("idempotency-replayed") == "true"
    if output == "json":
        show_json(document | {"replayed": True} if replayed else document)
        return
    rows = [(name, document.get(name)) for name in ("id", "topic", "due", "state", "outcome")]
    if "previous" in document:
        rows.append(("previous", document["previous"]["id"]))
    show_fields(rows + ([("replayed", "yes: this key was answered before")] if replayed else []))
