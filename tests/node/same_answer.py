"""What two nodes answer to the same request, made comparable: what may differ is named here, and nothing else is let
through."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from node.node import Node
from tests.waiting import turns

WITHIN_S = 40
SIDE = "~"
"""Stands in a request for the letter of the side that is asked, in front of each name of a topic or key."""

_TEXTS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"), "TIME"),
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "ID"),
    (re.compile(r"\bn\d+-[0-9a-f]{6,}-\d+\b"), "REQUEST"),
    (re.compile(r"\bop-\d+\b"), "OPERATION"),
    (re.compile(r"\b[lf]\.(?=[a-z])"), f"{SIDE}."),
    (re.compile(r"bytes, got \d+; send less"), "bytes, got MORE; send less"),  # as much as had come by then
)
_OPAQUE = ("receipt", "next_cursor")
#: Members whose values are of the run: only their types count.
_OF_THE_RUN = ("lateness_ms", "index", "took_ms", "gap_ms", "ready_us", "late")
#: Members that say whether it was handed over late, as on a busy machine, and why.
_OF_LATENESS = ("late_cause", "late_causes")


@dataclass
class Side:
    """One of the two nodes: its letter, and what its answers gave names to."""

    node: Node
    letter: str
    names: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The node's."""
        return self.node.config.node_id

    def fill(self, text: str) -> str:
        """The same with this side's letter, and with what the names stand for."""
        return re.sub(r"\$(\w+)", lambda name: self.names.get(name[1], name[0]), text).replace(SIDE, self.letter)


@dataclass(frozen=True)
class Answer:
    """One answer, as it came."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        """Its value; "" where it is not there."""
        return next((text for each, text in self.headers if each.lower() == name.lower()), "")

    def documents(self) -> list[Any]:
        """The JSON of it, one a line; of text the lines."""
        try:
            return [json.loads(line) for line in self.body.splitlines()]
        except ValueError:
            return list(self.body.decode().splitlines())

    def said(self) -> str:
        """The status and, of a refusal, its code."""
        first = (self.documents() or [None])[0]
        code = first.get("code", "") if self.status >= 400 and isinstance(first, dict) else ""
        return f"{self.status} {code}".strip()


async def ask(node: Node, *pieces: bytes, shut: bool = False) -> bytes:
    """All that a node answers before it closes. The pieces are sent one by one, behind `Expect` when the node has
    said something; `shut`: then the client closes its side."""
    host, _, port = node.config.http.listen.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    came = b""
    try:
        async with asyncio.timeout(WITHIN_S):
            for piece in pieces:
                writer.write(piece)
                if piece is not pieces[-1]:
                    waits = piece.endswith(b"\r\n\r\n") and b"\r\nExpect: 100-continue\r\n" in piece
                    came += await reader.readuntil(b"\r\n\r\n") if waits else b""
                    await turns()
            if shut:
                writer.write_eof()
            while piece := await reader.read(65_536):
                came += piece
            return came
    except TimeoutError:
        raise AssertionError(f"{pieces} is not answered to its end: {came!r}"[:2_000]) from None
    finally:
        writer.close()


def answers(came: bytes, methods: list[str]) -> Iterator[Answer]:
    """One behind the other; of the last method from there on. An answer to HEAD has no body."""
    while came:
        method = methods.pop(0) if len(methods) > 1 else methods[0]
        head, _, rest = came.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        version, status, *_ = first.split(" ")
        assert version == "HTTP/1.1", first
        headers = tuple((name, text) for name, _, text in (line.partition(": ") for line in lines))
        length = 0 if status == "100" else int(dict(headers)["Content-Length"])
        if status == "100":
            methods.insert(0, method)
        if method == "HEAD":
            assert length or status == "100"
            length = 0
        assert len(rest) >= length, came
        yield Answer(int(status), headers, rest[:length])
        came = rest[length:]


def told(answer: Answer, without: tuple[str, ...] = ()) -> Any:
    """What must not depend on the node: the status, the headers and the document, but for some of their members."""
    headers = sorted((name, _header(name, text)) for name, text in answer.headers if name not in without)
    return answer.status, headers, [masked(_less(each, without)) for each in answer.documents()]


def _less(document: Any, without: tuple[str, ...]) -> Any:
    if not isinstance(document, dict):
        return document
    return {name: value for name, value in document.items() if name not in without}


def _header(name: str, text: str) -> str:
    if name in ("Date", "Content-Length", "Hourwheel-Node"):  # `answers` checks the length, BothSides the node
        return ""
    return str(masked(text))


def masked(value: Any, name: str = "") -> Any:
    """The same without ids, times and figures of the run."""
    if name in _OF_LATENESS:
        return sorted(value) if isinstance(value, dict) else name
    if isinstance(value, dict):
        return {each: masked(part, each) for each, part in value.items()}
    if isinstance(value, list):
        return [masked(part, name) for part in value if (name, part) != ("flags", "late")]
    if isinstance(value, str):
        opaque = name in _OPAQUE and len(value) > 12 and value[1] != "."
        return name if opaque else _text(value)
    return type(value).__name__ if name in _OF_THE_RUN else value


def _text(text: str) -> str:
    for pattern, word in _TEXTS:
        text = pattern.sub(word, text)
    return text


def alike(one: Any, other: Any) -> bool:
    """Whether two documents about different nodes have the same members of the same kinds. Null, and an object without
    members, stand for anything: a node that does not lead knows no figures of its peers, and hands nothing over."""
    if one in (None, {}) or other in (None, {}):
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(part, other[name]) for name, part in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return type(one) is type(other)
