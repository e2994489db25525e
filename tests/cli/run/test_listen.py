"""`hourwheel listen` as a user meets it: lines, answers, the log, and its end."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.main import main
from cli.run.listen import Delivery, describe
from hourwheel.webhook_signature import read_secret, sign
from node.runtime.exit_code import ExitCode

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
END_S = 20
DUE = "2026-11-21T02:10:20.125Z"
HEADERS = {"webhook-id": "0A", "Hourwheel-Topic": "t", "Hourwheel-Attempt": "2", "Hourwheel-Term": "7"}


@contextlib.contextmanager
def listening(*args: str) -> Iterator[tuple["subprocess.Popen[str]", list[str]]]:
    """The command running on a port of the system's choice, and its URLs."""
    command = [sys.executable, "-m", "cli", "listen", *(args if "--port" in args else ("--port", "0", *args))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, re.findall(r"http://[\d.]+:\d+", process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def post(url: str, body: bytes = b"{}", headers: dict[str, str] | None = None) -> int:
    """The status of the answer."""
    request = urllib.request.Request(url, data=body, headers=headers or {}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code)


def ended(process: "subprocess.Popen[str]", number: int) -> tuple[str, str]:
    """Sends the signal; what was written, once it ended with 0."""
    process.send_signal(number)
    output, errors = process.communicate(timeout=END_S)
    assert process.returncode == ExitCode.OK, errors
    return output, errors


def test_lines_log_and_clean_end(tmp_path: Path) -> None:
    """One line per request for people; the log has every field; SIGTERM ends it with 0; a second run appends."""
    log = tmp_path / "log"
    for number in (signal.SIGTERM, signal.SIGINT):
        with listening("--log", str(log)) as (process, urls):
            before = time.time() * 1000
            assert post(f"{urls[0]}/hook", b'{"a": 1}', HEADERS | {"Hourwheel-Due": DUE}) == 200
            line = json.loads(log.read_text().splitlines()[-1])
            output, errors = ended(process, number)
        assert before - 1 <= line.pop("received_ms") <= time.time() * 1000
        assert line == {
            "port": int(urls[0].rpartition(":")[2]),
            "method": "POST",
            "path": "/hook",
            "id": "0A",
            "topic": "t",
            "attempt": 2,
            "term": 7,
            "due": DUE,
            "status": 200,
            "signature": None,
            "bytes": 8,
        }
        for part in ("200  0A  t  attempt 2  term 7", '{"a": 1}'):
            assert part in output
        assert "1 requests" in errors
    assert len(log.read_text().splitlines()) == 2


def test_chosen_answers() -> None:
    """A status, a share of failures, a delay; several ports; JSON with the body."""
    with listening("--port", "0", "--port", "0", "--status", "204", "-o", "json") as (process, urls):
        assert [post(url, b"\xff") for url in urls] == [204, 204]
        lines = [json.loads(line) for line in ended(process, signal.SIGTERM)[0].splitlines()]
    assert [f"http://127.0.0.1:{line['port']}" for line in lines] == urls
    assert lines[0]["body_base64"] == "/w=="
    with listening("--fail", "100%", "--delay", "100ms", "--quiet") as (process, urls):
        start = time.monotonic()
        assert post(urls[0]) == 500
        assert time.monotonic() - start >= 0.1
        assert ended(process, signal.SIGTERM)[0] == ""


def test_signatures() -> None:
    """With a secret: signed now is taken, unsigned or wrong is answered 401 and said."""
    at = str(int(time.time()))
    with listening("--secret", SECRET, "-o", "json") as (process, urls):
        signature = sign(read_secret(SECRET), "0A", at, b"x")
        signed = HEADERS | {"webhook-timestamp": at, "webhook-signature": signature}
        assert [post(urls[0], b"x", signed), post(urls[0], b"y", signed), post(urls[0], b"x", HEADERS)] == [
            200,
            401,
            401,
        ]
        lines = [json.loads(line) for line in ended(process, signal.SIGTERM)[0].splitlines()]
    assert [line["signature"] for line in lines] == ["ok", "wrong", "missing"]


def test_log_that_cannot_be_written(tmp_path: Path) -> None:
    """A judge that cannot write is none: before the start, and when it fails later."""
    result = CliRunner().invoke(main, ["listen", "--port", "0", "--log", str(tmp_path / "none" / "log")])
    assert result.exit_code == ExitCode.USAGE
    with listening("--log", "/dev/full") as (process, urls):
        with contextlib.suppress(OSError):
            post(urls[0])
        errors = process.communicate(timeout=END_S)[1]
        assert process.returncode == ExitCode.FAILED
        assert "cannot write the log" in errors


def test_port_in_use() -> None:
    """The address is named."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        result = CliRunner().invoke(main, ["listen", "--port", str(port)])
    assert result.exit_code == ExitCode.ADDRESS
    assert f"127.0.0.1:{port}" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("--fail", "101%"),
        ("--fail", "often"),
        ("--fail", "nan"),
        ("--delay", "1,5s"),
        ("--secret", "hush"),
        ("--status", "99"),
        ("--port", "70000"),
    ],
)
def test_options_that_cannot_be_meant(args: tuple[str, ...]) -> None:
    """Usage errors, before anything listens."""
    assert CliRunner().invoke(main, ["listen", *args]).exit_code == ExitCode.USAGE


def test_line_cannot_break_the_terminal() -> None:
    """Control characters in a body or a header are escaped, long bodies cut."""
    fields = {"received_ms": 1.8e12, "port": 1, "method": "POST", "path": "/", "topic": None, "attempt": None}
    fields |= {"term": None, "due": "soon", "status": 200, "signature": None, "bytes": 3}
    assert "\x1b" not in describe(Delivery(id="\x1b[2J", **fields), b"\x1b[31m")  # type: ignore[arg-type]
    assert len(describe(Delivery(id="0A", **fields), b"x" * 5_000)) < 250  # type: ignore[arg-type]
