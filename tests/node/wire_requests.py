"""Requests that are odd as HTTP, not in what they ask for: in pieces, in chunks, several at once, cut off.

`~` stands for the letter of the side that is asked, so a text has the same length on both.
"""

import re
from dataclasses import dataclass

from tests.node.every_request import NO_ID

_TOPIC, _COUNT = "/v1/topics/~.wire", "/v1/messages/count?topic=~.wire"
_CLOSE, _CHUNKED = "Connection: close", "Transfer-Encoding: chunked"
_MESSAGE = '{"topic": "~.wire", "body": 1, "delay": "30d"}'
_EXPECTS = "Expect: 100-continue"
_METHODS = re.compile(r"(?:GET|get|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE)(?= \S+ HTTP/1)")


@dataclass(frozen=True)
class Wire:
    """What goes over one connection, piece by piece, and the statuses of what comes back. `shut`: the client closes its
    side behind it."""

    told: str
    pieces: tuple[str, ...]
    shut: bool = False

    def methods(self) -> list[str]:
        """Of the requests, in order."""
        return _METHODS.findall("".join(self.pieces)) or ["GET"]


def _head(line: str, *headers: str) -> str:
    return "\r\n".join((f"{line} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""))


def _whole(line: str, body: str = "", *headers: str) -> str:
    length = (f"Content-Length: {len(body.encode('latin-1'))}",) if body else ()
    return _head(line, *headers, *length) + body


def _last(line: str, body: str = "", *headers: str) -> str:
    return _whole(line, body, _CLOSE, *headers)


def _chunks(*parts: str, extension: str = "", trailer: str = "") -> str:
    chunks = "".join(f"{len(part):x}{extension}\r\n{part}\r\n" for part in parts)
    return f"{chunks}0\r\n{trailer}\r\n"


_POST = "POST /v1/messages"
_IN_CHUNKS = _head(_POST, _CLOSE, _CHUNKED)
_BATCH = _head("POST /v1/messages/batch", _CLOSE, _CHUNKED, "Content-Type: application/x-ndjson")
_TURNS = (
    _whole(f"GET {_TOPIC}") + _whole(_POST, _MESSAGE) + _whole(f"HEAD {_COUNT}") + _whole(f"GET {_COUNT}")
    + _whole("GET /nowhere") + _whole(f"DELETE /v1/messages/{NO_ID}") + _whole(_POST, "{")
    + _whole(f"POST {_TOPIC}/pull", '{"max": 1}') + _last(f"GET {_TOPIC}")
)  # fmt: skip

PIPELINED = (
    Wire("200 201 200 200 404 404 400 200 200", (_TURNS,)),
    Wire("200 201 200 200 404 404 400 200 200", tuple(_TURNS[at : at + 97] for at in range(0, len(_TURNS), 97))),
    Wire(" ".join(["200"] * 21), (_whole(f"GET {_TOPIC}") * 20 + _last(f"GET {_TOPIC}"),)),
    Wire("201 201 201", (_whole(_POST, _MESSAGE) * 2 + _last(_POST, _MESSAGE),)),
    Wire("200 200", (_whole(f"POST {_TOPIC}/pull", '{"wait": "90ms"}') + _last(f"GET {_TOPIC}"),)),
    Wire("201 400", (_whole(_POST, _MESSAGE), "no request\r\n\r\n")),
    Wire("201", (_whole(_POST, _MESSAGE), "GET /v1/to"), shut=True),
    Wire("200 400", (_whole(f"GET {_TOPIC}") + _last(f"PUT {_TOPIC}", "{"),)),
    Wire("200 201", (_whole(f"HEAD {_TOPIC}") + _last(_POST, _MESSAGE),)),
)

EXPECTING = (
    Wire("100 201", (_head(_POST, _CLOSE, _EXPECTS, f"Content-Length: {len(_MESSAGE)}"), _MESSAGE)),
    Wire("201", (_last(_POST, _MESSAGE, _EXPECTS),)),
    Wire("100 201", (_head(_POST, _CLOSE, _EXPECTS, _CHUNKED), _chunks(_MESSAGE))),
    Wire("100 200", (_head(f"PUT {_TOPIC}", _CLOSE, _EXPECTS, "Content-Length: 2"), "{}")),
    Wire("100 200", (_head(f"POST {_TOPIC}/pull", _CLOSE, _EXPECTS, "Content-Length: 2"), "{}")),
    Wire("100 200", (_head(f"POST {_TOPIC}/ack", _CLOSE, _EXPECTS, "Content-Length: 18"), '{"receipts":["a"]}')),
    Wire("200", (_head(f"GET {_TOPIC}", _CLOSE, _EXPECTS),)),
    Wire("200", (_head(f"DELETE {_TOPIC}-gone", _CLOSE, _EXPECTS),)),
    Wire("201", (_last(_POST, _MESSAGE, "Expect: something"),)),
)

CHUNKED = (
    Wire("201", (_IN_CHUNKS + _chunks(_MESSAGE),)),
    Wire("201", (_IN_CHUNKS, *(f"1\r\n{each}\r\n" for each in _MESSAGE), "0\r\n\r\n")),
    Wire("201", (_IN_CHUNKS + _chunks(_MESSAGE[:9], _MESSAGE[9:], extension=";a=b", trailer="X-A: b\r\n"),)),
    Wire("200", (_BATCH, _chunks(_MESSAGE + "\n", _MESSAGE + "\n{}\n"))),
    Wire("400", (_IN_CHUNKS + _chunks(),)),
    Wire("400", (_IN_CHUNKS, "zz\r\n{}\r\n0\r\n\r\n")),
    Wire("", (_IN_CHUNKS, "5\r\n{}\r\n"), shut=True),
    Wire("413", (_IN_CHUNKS, _chunks("a" * 700_000, "b" * 700_000))),
    Wire("400", (_head(_POST, _CLOSE, _CHUNKED, "Content-Length: 3") + _chunks("{}"),)),
    Wire("200", (_head(f"GET {_TOPIC}", _CLOSE, _CHUNKED) + _chunks("{}"),)),
    Wire("404", (_head(f"DELETE /v1/messages/{NO_ID}", _CLOSE, _CHUNKED) + _chunks("{}"),)),
    Wire("200", (_head(f"PUT {_TOPIC}", _CLOSE, _CHUNKED) + _chunks("{", "}"),)),
    Wire("201 200", (_head(_POST, _CHUNKED) + _chunks(_MESSAGE) + _last(f"GET {_TOPIC}"),)),
)

HALF_CLOSED = (
    Wire("201", (_whole(_POST, _MESSAGE),), shut=True),
    Wire("200", (_whole(f"GET {_TOPIC}"),), shut=True),
    Wire("200", (_whole(f"POST {_TOPIC}/pull", '{"wait": "20s"}'),), shut=True),
    Wire("404", (_whole(f"DELETE /v1/messages/{NO_ID}"),), shut=True),
    Wire("200 200", (_whole(f"GET {_TOPIC}") + _whole(f"GET {_COUNT}"),), shut=True),
    Wire("200", (_whole("POST /v1/topics/~.half/pull", '{"wait": "20s"}'),), shut=True),
    Wire("200", (_whole("POST /v1/topics/~.sure/pull", '{"wait": "20s"}'),), shut=True),
    Wire("", (_head(_POST, "Content-Length: 99") + "{",), shut=True),
    Wire("", (_head(_POST)[:30],), shut=True),
    Wire("", ("",), shut=True),
)

UNREAD = (
    Wire("413", (_head(_POST, _CLOSE, _EXPECTS, "Content-Length: 99999999"),)),
    Wire("415", (_head(_POST, _CLOSE, _EXPECTS, "Content-Type: a/b", "Content-Length: 2"),)),
    Wire("404", (_head("POST /nowhere", _CLOSE, _EXPECTS, "Content-Length: 2"),)),
    Wire("413", (_head(_POST, _CLOSE, "Content-Length: 1048577") + "{",)),
    Wire("413", (_head("POST /v1/messages/batch", _CLOSE, "Content-Length: 16777217") + "{",)),
    Wire("413", (_head(f"PUT {_TOPIC}", _CLOSE, "Content-Length: 1048577") + "{",)),
    Wire("413", (_head(_POST, _CLOSE, "Content-Type: a/b", "Content-Length: 1048577"),)),
    Wire("200", (_head(f"GET {_TOPIC}", _CLOSE, "Content-Length: 9"),)),
    Wire("404", (_head(f"DELETE /v1/messages/{NO_ID}", _CLOSE, _CHUNKED),)),
)
"""Answered before the body is there, for which a node then waits a moment: for all at once."""

FRAMED = (
    Wire("413", (_last(_POST, '{"topic": "~.wire", "body": "' + "a" * 262_144 + '"}'),)),
    Wire("200", (_head(f"GET {_TOPIC}", _CLOSE, "Content-Length: 2") + "{}",)),
    Wire("404", (_head(f"DELETE /v1/messages/{NO_ID}", _CLOSE, "Content-Length: 2") + "{}",)),
    Wire("400", (_head(f"GET {_TOPIC}", _CLOSE, "X-A: " + "b" * 9_000),)),
    Wire("400", (_head(f"GET {_TOPIC}", _CLOSE, *[f"X-{number}: {'b' * 4_000}" for number in range(9)]),)),
    Wire("400", (_head(_POST, _CLOSE, "Content-Length: 2", "Content-Length: 3") + "{}",)),
    Wire("400", (_head(_POST, _CLOSE, "Content-Length: -2") + "{}",)),
    Wire("400", ("no request\r\n\r\n",)),
    Wire("200", (f"GET {_TOPIC} HTTP/1.0\r\n\r\n",)),
    Wire("201", (f"{_POST} HTTP/1.0\r\nContent-Length: {len(_MESSAGE)}\r\n\r\n{_MESSAGE}",)),
    Wire("200", (_last(f"GET http://127.0.0.1{_TOPIC}"),)),
    Wire("400", (_last(f"GET {_TOPIC}#a"),)),
    Wire("400", (f"GET {_TOPIC} HTTP/1.1\r\n{_CLOSE}\r\n\r\n",)),
)

_TYPE = "Content-Type: "
HEADED = (
    Wire("400", (_last(_POST, _MESSAGE, "Content-Encoding: gzip"),)),
    Wire("400", (_last(_POST, _MESSAGE, "Content-Encoding: zstd"),)),
    Wire("415", (_last(_POST, _MESSAGE, "Content-Encoding: br"),)),
    Wire("201", (_last(_POST, _MESSAGE, "Content-Encoding: identity"),)),
    Wire("201", (_last(_POST, _MESSAGE),)),
    Wire("201", (_last(_POST, _MESSAGE, f"{_TYPE}APPLICATION/JSON; charset=utf-8"),)),
    Wire("415", (_last(_POST, _MESSAGE, f"{_TYPE}text/plain"),)),
    Wire("400", (_last(_POST, _MESSAGE, f"{_TYPE}application/\xffjson"),)),
    Wire("400", (_last(_POST, '{"topic": "~.wire", "body": "\xff"}'),)),
    Wire("200", (_last("POST /v1/messages/batch", _MESSAGE, f"{_TYPE}application/jsonl"),)),
    Wire("415", (_last("POST /v1/messages/batch", _MESSAGE, f"{_TYPE}application/json"),)),
    *(Wire("200", (_last(f"GET {_TOPIC}", "", f"Accept: {each}"),)) for each in ("text/html", "*/*;q=0", "a/b")),
    Wire("201", (_last(_POST, _MESSAGE, "Idempotency-Key: ~wire"),)),
    Wire("422", (_last(_POST, _MESSAGE, "Idempotency-Key: a", "Idempotency-Key: b"),)),
    Wire("200", (_last(f"GET {_TOPIC}", "", "Idempotency-Key: a"),)),
    Wire("400", (_last(_POST, _MESSAGE, "Idempotency-Key: \xfc"),)),
    Wire("400", (_last(f"PUT {_TOPIC}", "{}", 'If-Match: "\xff"'),)),
    Wire("200", (_last(f"GET {_TOPIC}", "", 'If-Match: "9"', "Range: bytes=0-1", "Cookie: a=b"),)),
    Wire("201", (_last(_POST, _MESSAGE, 'If-Match: "9"'),)),
    Wire("200", (_last(f"GET {_TOPIC}", "", "X-Request-Id: mine.7"),)),
    Wire("404", (_last("GET /nowhere", "", "X-Request-Id: mine.7"),)),
    Wire("422", (_last(f"PUT {_TOPIC}", '{"a": 1}', "X-Request-Id: not sane"),)),
    Wire("403", (_last(_POST, _MESSAGE, "Origin: http://evil.example"),)),
    Wire("403", (_last(f"GET {_TOPIC}", "", "Sec-Fetch-Site: cross-site"),)),
    Wire("400", (_last(f"GET {_TOPIC}", "", "Host: evil.example"),)),
    Wire("200", (_last(f"GET {_TOPIC}").replace("127.0.0.1", "evil.example"),)),
    Wire("200", (_whole(f"GET {_TOPIC}", "", "Connection: Upgrade", "Upgrade: websocket"),), shut=True),
    Wire("201", (_whole(_POST, _MESSAGE, "Connection: Upgrade", "Upgrade: h2c"),), shut=True),
    Wire("200", (_last(f"POST {_TOPIC}/pull", '{"wait": "20s"}', "Hourwheel-Once: 1"),)),
    Wire("405", (_last(f"OPTIONS {_TOPIC}"),)),
    Wire("405", (_last(f"TRACE {_TOPIC}"),)),
    Wire("400", (_last(f"get {_TOPIC}"),)),
)

_MADE = (
    Wire("201", (_last(_POST, _MESSAGE),)),
    Wire("200", (_last(f"PUT {_TOPIC}-gone", "{}"),)),
    Wire("201", (_last(_POST, '{"topic": "~.half", "body": 1}'),)),
    Wire("200", (_last("PUT /v1/topics/~.sure", '{"handover": "strict"}'),)),
    Wire("201", (_last(_POST, '{"topic": "~.sure", "body": 1}'),)),
)
WIRES = (*_MADE, *PIPELINED, *EXPECTING, *CHUNKED, *HALF_CLOSED, *FRAMED, *HEADED)
