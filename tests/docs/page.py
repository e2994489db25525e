"""A page of runnable examples: its curl commands, sent, and its answers, held against what came.

An example is a fenced block `sh` with one curl command, followed by a plain one with the answer: the status, then the
body. Where values differ from run to run (ids, receipts, times, terms) the shape has to agree; everything else is
compared as it stands. An id or receipt that an answer shows stands for the real one in the commands below it.
"""

import asyncio
import http.client
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import msgspec

_EXAMPLE = re.compile(r"^```sh\n(curl .*?)\n```\n(?:\n)?^```\n(\d{3})\b[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
#: Members whose values stand for others.
_NAMES = ("id", "receipt", "next_cursor")
#: Members whose values are of the run: only their types count.
_OF_THE_RUN = (
    "term",
    "term_before",
    "term_after",
    "took_ms",
    "ready_us",
    "index",
    "lateness_ms",
    "request_id",
    "cluster_id",
    "directory",
    "bytes",
    "files",
    "applied_term",
    "http",
    "raft",
    "connections",
    "connections_max",
    "held_bytes_max",
) + ("commit_index", "applied_index", "lag", "clock_offset_ms", "tick", "local_index", "p50", "p99", "p99_9", "max")
#: Members of an operation that has not ended, or was aborted: how far it has come by then is of the run.
_SO_FAR = ("changed", "matched", "none", "progress")
#: A line of an answer in text that stands for any others.
_MORE = "..."


class Example(msgspec.Struct, frozen=True):
    """A command as the page has it, and the answer that it shows."""

    command: str
    status: int
    answer: str


class Answer(msgspec.Struct, frozen=True):
    """What came."""

    status: int
    body: bytes


class Request(msgspec.Struct, frozen=True):
    """What a command asks for, for where there is no curl."""

    method: str
    address: str
    target: str
    headers: dict[str, str]
    body: bytes | None


def examples(page: Path) -> list[Example]:
    """All examples of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [Example(command, int(status), answer) for command, status, answer in _EXAMPLE.findall(text)]


def read_command(command: str) -> Request:
    """The request of a curl command: a URL and the options -X, -H, --json and --data-binary."""
    method, url, headers, body = "", "", {}, None
    words = iter(shlex.split(command)[1:])
    for word in words:
        if word == "-X":
            method = next(words)
        elif word == "-H":
            name, _, value = next(words).partition(": ")
            headers[name] = value
        elif word in ("--json", "--data-binary"):
            body = next(words).encode()
            if word == "--json":
                headers["Content-Type"] = "application/json"
        else:
            assert not word.startswith("-"), f"the pages do without {word}"
            url = word
    address, slash, target = url.partition("/")
    return Request(method or ("GET" if body is None else "POST"), address, slash + target, headers, body)


async def send(command: str) -> Answer:
    """The answer to a command: by curl itself where it is installed, as readers will run it."""
    if shutil.which("curl") is None:
        return await asyncio.to_thread(send_plainly, read_command(command))
    words = ["-sS", "--max-time", "30", "-w", "\n%{http_code}", *shlex.split(command)[1:]]
    process = await asyncio.create_subprocess_exec("curl", *words, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    body, _, status = output.rpartition(b"\n")
    return Answer(int(status), body)


def send_plainly(request: Request) -> Answer:
    """The answer by the standard library."""
    connection = http.client.HTTPConnection(request.address, timeout=30)
    try:
        connection.request(request.method, request.target, request.body, request.headers)
        reply = connection.getresponse()
        return Answer(reply.status, reply.read())
    finally:
        connection.close()


def compare(shown: str, found: bytes, names: dict[str, str]) -> None:
    """Hold an answer against the page's; what the page calls ids, receipts and times goes into `names`."""
    wanted, came = shown.strip().splitlines(), found.decode().strip().splitlines()
    if not shown.lstrip().startswith("{"):
        _compare_text(wanted, came)
    elif len(came) > 1:  # one document a line
        assert len(wanted) == len(came), found.decode()
        for want, line in zip(wanted, came, strict=True):
            _compare_values(msgspec.json.decode(want), msgspec.json.decode(line), "", names)
    else:
        _compare_values(msgspec.json.decode(shown), msgspec.json.decode(found), "", names)


def _compare_text(wanted: list[str], came: list[str]) -> None:
    if _MORE in wanted:
        missing = [line for line in wanted if line != _MORE and line not in came]
        assert not missing
    else:
        assert wanted == came


def _is_so_far(document: dict[str, Any]) -> bool:
    """Whether an operation has not done all its work. Its counts of priors say it too."""
    return document.get("state") in ("running", "paused", "aborted") or document.keys() == {"none", "known", "unknown"}


def _compare_values(want: Any, came: Any, where: str, names: dict[str, str]) -> None:
    name = where.rpartition("/")[2]
    if isinstance(want, dict) and isinstance(came, dict):
        assert want.keys() == came.keys(), where
        for key in want:
            if not (_is_so_far(want) and key in _SO_FAR and want[key] is not None and came[key] is not None):
                _compare_values(want[key], came[key], f"{where}/{key}", names)
    elif isinstance(want, list) and isinstance(came, list):
        assert len(want) == len(came), where
        for each, other in zip(want, came, strict=True):
            _compare_values(each, other, where, names)
    elif isinstance(want, str) and _TIME.fullmatch(want):
        assert isinstance(came, str), where
        assert _TIME.fullmatch(came), where
        names.setdefault(want, came)
    elif name in _NAMES and isinstance(want, str):
        assert isinstance(came, str), where
        assert names.setdefault(want, came) == came, where
    elif name in _OF_THE_RUN:
        assert type(want) is type(came) or {type(want), type(came)} <= {int, float}, where
    else:
        assert want == came, where
