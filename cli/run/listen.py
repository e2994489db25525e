"""`hourwheel listen`: a local receiver of webhooks, to see what a node pushes and how it takes failures.

It answers as told: a status, a delay, a share of failures. Every request is one line on stdout, and with `--log` also a
line of JSON in a file. `-o json` prints the line of the log with the body added. A request is in the log before its
answer goes out. So a delivery that a node was told of is in the log whatever happens next, and nodes can be judged by
the log. Its lines:

{"received_ms","port","method","path","id","topic","attempt","term","due","status","signature","bytes"}

`received_ms` is Unix time with a fraction; `id` to `due` are the headers as they came, or null; attempt and term are
numbers. `signature` is null without a secret, else ok, missing, stale or wrong (answered 401 unless ok).
"""

import asyncio
import base64
import json
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from datetime import datetime

import click
import msgspec

from cli.failure import Failure
from cli.option import secret_options
from cli.output import output_option
from cli.run.parent import end_with
from cli.time_option import DURATION, Duration
from hourwheel.webhook_receiver import Receiver, Reply, Request
from hourwheel.webhook_signature import BadSecret, check, read_secret
from node.runtime.exit_code import ExitCode

HOST = "127.0.0.1"
FAILED_STATUS = 500
UNSIGNED_STATUS = 401
BODY_SHOWN = 120


@dataclass(frozen=True)
class AnswerRule:
    """How requests are answered: with `status` after `delay_s`. A share of them, `fail_share` (0 to 1), is answered
    FAILED_STATUS. Signatures are verified with `key`; None verifies none."""

    status: int
    delay_s: float
    fail_share: float
    key: bytes | None


class Delivery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of the log."""

    received_ms: float
    port: int
    method: str
    path: str
    id: str | None
    topic: str | None
    attempt: int | None
    term: int | None
    due: str | None
    status: int
    signature: str | None
    bytes: int


_encode = msgspec.json.encode


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else None


def lateness_ms(delivery: Delivery) -> float | None:
    """Return the time of receipt minus the due time. None if the request has no due time that can be read."""
    try:
        due = datetime.fromisoformat(delivery.due or "")
        return delivery.received_ms - due.timestamp() * 1000
    except (ValueError, OverflowError):
        return None


def describe(delivery: Delivery, body: bytes) -> str:
    """The line for people: when, what, how late, how answered, and the start of the body."""
    at = datetime.fromtimestamp(delivery.received_ms / 1000).strftime("%H:%M:%S.%f")[:-3]
    text = body.decode("utf-8", "replace")
    text = text if text.isprintable() else json.dumps(text)
    if len(text) > BODY_SHOWN:
        text = f"{text[:BODY_SHOWN]}... ({len(body)} bytes)"
    late = lateness_ms(delivery)
    parts = [at, f"{delivery.status}", delivery.id or f"{delivery.method} {delivery.path}", delivery.topic]
    parts += [f"attempt {delivery.attempt}" if delivery.attempt is not None else None]
    parts += [f"term {delivery.term}" if delivery.term is not None else None]
    parts += [f"{late:+.1f} ms" if late is not None else None]
    parts += [f"signature {delivery.signature}" if delivery.signature is not None else None, text]
    shown = "  ".join(part for part in parts if part)
    return shown if shown.isprintable() else json.dumps(shown)


def _body(body: bytes) -> dict[str, str]:
    """The body as a field: as text where it is UTF-8."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def _share(text: str) -> float:
    """ "10%" or "10" as 0.1. Raises click's BadParameter."""
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise click.BadParameter(f"{text!r} is not a share from 0% to 100%", param_hint="--fail")
    return share


def _rule(status: int, delay_ms: int, fail: str, secret: str | None) -> AnswerRule:
    """Return the rule that the options ask for. Raises click's BadParameter."""
    try:
        key = None if secret is None else read_secret(secret)
    except BadSecret as error:
        raise click.BadParameter(str(error), param_hint="--secret") from None
    return AnswerRule(status, delay_ms / 1000, _share(fail), key)


@click.command()
@click.option(
    "--port",
    "ports",
    type=click.IntRange(0, 65_535),
    multiple=True,
    default=(9000,),
    show_default=True,
    help="on 127.0.0.1; may be given several times; 0: any that is free",
)
@click.option("--status", type=click.IntRange(200, 599), default=200, show_default=True, help="the answer")
@click.option(
    "--delay", "delay_ms", type=Duration(), default="0ms", show_default=True, help=f"before the answer: {DURATION}"
)
@click.option("--fail", default="0%", show_default=True, help="this share is answered 500 instead")
@secret_options
@click.option("--log", "log_path", type=click.Path(dir_okay=False), help="append one JSON line per request")
@click.option("--quiet", is_flag=True, help="print no requests")
@click.option("--parent", type=int, hidden=True, help="end when this process, the parent, is gone")
@output_option
def command(
    ports: tuple[int, ...],
    status: int,
    delay_ms: int,
    fail: str,
    secret: str | None,
    log_path: str | None,
    quiet: bool,
    parent: int | None,
    output: str,
) -> None:
    """Receives webhooks on this machine until SIGINT or SIGTERM, and shows each.

    Nodes push to this machine only when told to: `[push] allow = ["127.0.0.0/8"]`, which `hourwheel dev` sets.
    """
    from cli.run.serve import loop_factory

    rule = _rule(status, delay_ms, fail, secret)
    if parent is not None:
        end_with(parent)
    try:
        log = None if log_path is None else os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise Failure(ExitCode.USAGE, f"cannot write {log_path}: {error.strerror}") from None
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_run(ports, RequestHandler(rule, log, None if quiet else output), output))
    finally:
        if log is not None:
            os.close(log)


class RequestHandler:
    """Decides how each request is answered, and writes it to the log (a file descriptor) and to stdout. `shown` is the
    form on stdout: table, json, or None for nothing."""

    def __init__(self, rule: AnswerRule, log: int | None, shown: str | None) -> None:
        self._rule, self._log, self._shown = rule, log, shown
        self.count = 0

    def receive(self, port: int, method: str, path: str, headers: dict[str, str], body: bytes) -> int:
        """Write one request to the log and to stdout. Return the status of its answer."""
        received_s = time.time()
        rule = self._rule
        signature = None
        if rule.key is not None:
            signature = check(rule.key, headers, body, received_s)
        status = rule.status
        if signature not in (None, "ok"):
            status = UNSIGNED_STATUS
        elif rule.fail_share and random.random() < rule.fail_share:
            status = FAILED_STATUS
        delivery = Delivery(
            received_ms=round(received_s * 1000, 3),
            port=port,
            method=method,
            path=path,
            id=headers.get("webhook-id"),
            topic=headers.get("hourwheel-topic"),
            attempt=_number(headers.get("hourwheel-attempt")),
            term=_number(headers.get("hourwheel-term")),
            due=headers.get("hourwheel-due"),
            status=status,
            signature=signature,
            bytes=len(body),
        )
        self.count += 1
        if self._log is not None:
            _write_whole(self._log, _encode(delivery) + b"\n")
        if self._shown == "table":
            print(describe(delivery, body), flush=True)
        elif self._shown == "json":
            print(_encode(msgspec.structs.asdict(delivery) | _body(body)).decode(), flush=True)
        return status

    @property
    def delay_s(self) -> float:
        """The delay before every answer."""
        return self._rule.delay_s


def _write_whole(fd: int, data: bytes) -> None:
    """Write a line to the log. Raises Failure if that is not possible: nodes would be blamed for a delivery whose line
    is lost."""
    try:
        if os.write(fd, data) != len(data):
            raise OSError(0, "cut short")
    except OSError as error:
        raise Failure(ExitCode.FAILED, f"cannot write the log: {error.strerror}") from None


async def _run(ports: tuple[int, ...], desk: RequestHandler, output: str) -> None:
    loop = asyncio.get_running_loop()
    stop = loop.create_future()

    def receive(port: int, request: Request) -> Reply:
        try:
            status = desk.receive(port, request.method, request.path, request.headers, request.body)
        except Exception as error:
            if not stop.done():
                stop.set_exception(error)
            raise
        return Reply(status, desk.delay_s)

    def end() -> None:
        if not stop.done():
            stop.set_result(None)

    receiver = Receiver(receive)
    for port in ports:
        try:
            await receiver.listen(HOST, port)
        except OSError as error:
            raise Failure(ExitCode.ADDRESS, f"cannot listen on {HOST}:{port}: {error.strerror}") from None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    urls = [f"http://{HOST}:{port}" for port in receiver.ports]
    click.echo(json.dumps({"listening": urls}) if output == "json" else f"listens on {', '.join(urls)} until Ctrl-C")
    sys.stdout.flush()
    try:
        await stop
    finally:
        await receiver.close()
    click.echo(f"hourwheel listen: {desk.count} requests", err=True)
