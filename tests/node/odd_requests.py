"""Requests as bytes, most of them wrong in one to three places, drawn from a seed.

What a valid one does is the same when it is done twice, so that two nodes may be asked the same: no topic is removed,
nothing is pulled, and messages are scheduled for a far time.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

ID = b"2000F6ZY000000004M16D0WDR1"
_SCHEDULE = b'{"topic":"odd","body":"aGk=","encoding":"base64","delay":"90d"}'
_BATCH = b'{"topic":"odd","body":1,"delay":"90d"}\n{"topic":"odd","body":2,"delay":"91d"}\n'


@dataclass(frozen=True)
class Odd:
    """One request before it is bytes."""

    method: bytes
    path: bytes
    query: bytes = b""
    headers: tuple[bytes, ...] = ()
    body: bytes = b""
    framing: bytes | None = None  # in place of Content-Length

    def bytes(self) -> bytes:
        """What goes over the wire; the connection ends with the answer."""
        target = self.path + (b"?" + self.query if self.query else b"")
        framing = self.framing
        if framing is None:
            framing = b"Content-Length: %d" % len(self.body) if self.body else b""
        lines = [self.method + b" " + target + b" HTTP/1.1", b"Connection: close", *self.headers]
        return b"\r\n".join([*lines, *([framing] if framing else []), b"", b""]) + self.body


_HOST, _JSON = b"Host: 127.0.0.1:7400", b"Content-Type: application/json"
_NDJSON = b"Content-Type: application/x-ndjson"
VALID = (
    Odd(b"POST", b"/v1/messages", headers=(_HOST, _JSON), body=_SCHEDULE),
    Odd(b"POST", b"/v1/messages/batch", headers=(_HOST, _NDJSON), body=_BATCH),
    Odd(b"GET", b"/v1/messages/" + ID, headers=(_HOST,)),
    Odd(b"GET", b"/v1/messages/" + ID, b"ledger=false", headers=(_HOST,)),
    Odd(b"DELETE", b"/v1/messages/" + ID, headers=(_HOST, b'If-Match: "1"')),
    Odd(b"PATCH", b"/v1/messages/" + ID, headers=(_HOST, _JSON, b'If-Match: "1"'), body=b'{"delay":"5s"}'),
    Odd(b"GET", b"/v1/messages/count", b"topic=odd&state=scheduled", headers=(_HOST,)),
    Odd(b"GET", b"/v1/messages/histogram", b"topic=odd&from=2026-11-21T00:00:00Z", headers=(_HOST,)),
    Odd(b"GET", b"/v1/messages", b"topic=odd&limit=3&body=false", headers=(_HOST,)),
    Odd(b"POST", b"/v1/messages/redrive", headers=(_HOST, _JSON), body=b'{"topic":"odd","limit":5}'),
    Odd(b"GET", b"/v1/topics", b"limit=3", headers=(_HOST,)),
    Odd(b"GET", b"/v1/topics/odd", headers=(_HOST,)),
    Odd(b"PUT", b"/v1/topics/odd", headers=(_HOST, _JSON), body=b"{}"),
    Odd(b"PATCH", b"/v1/topics/odd", headers=(_HOST, _JSON), body=b'{"paused":false}'),
    Odd(b"GET", b"/v1/topics/odd/dead", b"limit=2", headers=(_HOST,)),
    Odd(b"POST", b"/v1/topics/odd/pull", headers=(_HOST, _JSON), body=b'{"max":1,"lease":"5s"}'),
    Odd(b"POST", b"/v1/topics/odd/ack", headers=(_HOST, _JSON), body=b'{"receipts":["x"]}'),
    Odd(b"POST", b"/v1/topics/odd/nack", headers=(_HOST, _JSON), body=b'{"receipts":[{"receipt":"x","delay":"1s"}]}'),
    Odd(b"POST", b"/v1/topics/odd/extend", headers=(_HOST, _JSON), body=b'{"receipts":["x"],"lease":"5s"}'),
    Odd(b"GET", b"/v1/ledger", b"topic=odd&from=2026-11-21T00:00:00Z&limit=2", headers=(_HOST,)),
    Odd(b"GET", b"/v1/ledger/summary", b"topic=odd&from=2026-11-21T00:00:00Z", headers=(_HOST,)),
)

_TEXTS = (
    b"\xff", b"%ff", b"%00", b"\x00", b"#junk", b"//", b"/..", b"/../x", b"%2f", b"%2e%2e", b" ", b"\t", b"\\", b"%",
    b"%zz", b";a=b", b"\xc3\xbc", b"%C3%BC", b"+", b"?", b"&", b"=", b"A" * 300, b"~", b"*", b"@", b":80", b"[", b"\r",
)  # fmt: skip
_HEADERS = (
    b'If-Match: "\xff1"', b"If-Match: 1", b'If-Match: W/"1"', b"If-Match: *", b'If-Match: "1", "2"', b"If-Match:",
    b'If-Match: "01"', b"Content-Type: application/\xffjson", b"Content-Type: text/plain",
    b"Content-Type: application/json; charset=latin-1", b"Content-Type: APPLICATION/JSON;charset=UTF-8",
    b"Content-Type:", b"Content-Type: application/x-ndjson", b"Content-Encoding: gzip", b"Content-Encoding: identity",
    b"Idempotency-Key:", b"Idempotency-Key: " + b"k" * 300, b"Idempotency-Key: \xc3\xbc",
    b"Idempotency-Key: a\tb", b"Accept: application/json", b"Accept: text/html", b"Accept: */*;q=0", b"Accept:",
    b"Accept: \xff", b"Origin: http://evil.example", b"Origin: null", b"Sec-Fetch-Site: cross-site",
    b"Sec-Fetch-Site: none", b"Host: evil.example", b"Host: a", b"Host:", b"Expect: 100-continue", b"Expect: x",
    b"Upgrade: websocket", b"Cookie: a=b", b"Range: bytes=0-1", b"X-Odd: " + b"y" * 9_000, b"X-Odd : a",
    b" X-Odd: folded", b"X-\xff: a", b"X-Odd: a\x00b", b"X-Request-Id: mine", b"X-Http-Method-Override: DELETE",
    b"Hourwheel-Odd: 1", b"Webhook-Id: 1", b"Date: yesterday", b"TE: trailers",
)  # fmt: skip
_PARAMETERS = (
    b"limit=0", b"limit=-1", b"limit=1e9", b"limit=%31", b"limit=1&limit=2", b"limit=", b"limit", b"cursor=x",
    b"cursor=", b"tag=%ff", b"tag=a&tag=b", b"from=9999-12-31T23:59:59-23:59", b"from=0001-01-01T00:00:00%2B23:59",
    b"from=2026-11-21", b"from=1", b"to=0", b"from=2026-11-22T00:00:00Z&to=2026-11-21T00:00:00Z", b"state=gone",
    b"state=SCHEDULED", b"topic=%2e", b"topic=", b"topic=a/b", b"ledger=maybe", b"counts=1", b"&&&", b"=", b"a=b",
    b"%", b"__proto__=1", b"bucket=1s", b"by=topic", b"q=" + b"z" * 5_000,
    b"&".join(b"p%d=1" %  number for number in range(40)),
)  # fmt: skip
_VALUES = (
    b"null", b"true", b"-1", b"0", b"1e400", b"-0", b"1.5", b"99999999999999999999", b'""', b'"\\ud800"', b'"\xff"',
    b'"\\u0000"', b"[]", b"{}", b'["a"]', b'{"a":1}', b'"' + b"x" * 400 + b'"', b"NaN", b"Infinity", b"'a'",
    b'"2026-02-30T00:00:00Z"', b'"5 s"', b'"-5s"', b'"9999d"', b"[" * 200 + b"]" * 200,
)  # fmt: skip
_NAMES = (
    b"topic", b"body", b"delay", b"deliver_at", b"key", b"tags", b"headers", b"target", b"retry", b"priority", b"ttl",
    b"encoding", b"receipts", b"max", b"lease", b"wait", b"limit", b"paused", b"mode", b"toppic", b"", b"\xc3\xbc",
    b"a" * 200,
)  # fmt: skip
_BODIES = (
    b"", b"{", b"}", b"[]", b"null", b"1", b'"a"', b"\xef\xbb\xbf{}", b"\xff\xfe", b"{}{}", b"{} x",
    b'{"topic":"odd","topic":"odd2"}', b"{" * 500, b"[" * 5_000, b"\n\n\n", b"{}\n" * 150,
    b'{"topic":"odd","body":1}\n{"topic":1}\nnot json\n', b"\x00" * 10, b" " * 3_000, b"a=b&c=d",
    b'{"topic":"odd","body":"' + b"a" * 300_000 + b'","delay":"90d"}',
)  # fmt: skip
_METHODS = (
    b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE", b"CONNECT", b"get", b"G\xffT",
    b"X" * 40, b"PROPFIND",
)  # fmt: skip
_FRAMINGS = (
    b"Content-Length: -1", b"Content-Length: +5", b"Content-Length: 5, 5", b"Content-Length: 0x5",
    b"Content-Length: 99999999999", b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip",
    b"Transfer-Encoding: chunked\r\nContent-Length: 3", b"Content-Length: 3\r\nContent-Length: 4",
    b"Content-Length: 18446744073709551617", b"Transfer-Encoding: Chunked, chunked",
)  # fmt: skip


def _path(odd: Odd, chance: random.Random) -> Odd:
    at = chance.randrange(1, len(odd.path) + 1)
    return replace(odd, path=odd.path[:at] + chance.choice(_TEXTS) + odd.path[at:])


def _other_path(odd: Odd, chance: random.Random) -> Odd:
    return replace(
        odd, path=chance.choice(VALID).path.replace(ID, chance.choice([ID, ID[:-1], ID.lower(), b"x", b"0" * 26]))
    )


def _query(odd: Odd, chance: random.Random) -> Odd:
    more = chance.choice(_PARAMETERS)
    return replace(odd, query=odd.query + b"&" + more if odd.query and chance.random() < 0.5 else more)


def _header(odd: Odd, chance: random.Random) -> Odd:
    header = chance.choice(_HEADERS)
    name = header.split(b":")[0].lower() + b":"
    kept = (
        odd.headers
        if chance.random() < 0.3
        else tuple(each for each in odd.headers if not each.lower().startswith(name))
    )
    return replace(odd, headers=(*kept, header))


def _no_header(odd: Odd, chance: random.Random) -> Odd:
    gone = chance.randrange(len(odd.headers) or 1)
    return replace(odd, headers=odd.headers[:gone] + odd.headers[gone + 1 :])


def _method(odd: Odd, chance: random.Random) -> Odd:
    return replace(odd, method=chance.choice(_METHODS))


def _field(odd: Odd, chance: random.Random) -> Odd:
    """One more, or one again, in the first document."""
    at = odd.body.find(b"{") + 1
    if not at:
        return replace(odd, body=chance.choice(_BODIES))
    comma = b"" if odd.body[at : at + 1] == b"}" else b","
    named = b'"' + chance.choice(_NAMES) + b'":' + chance.choice(_VALUES) + comma
    return replace(odd, body=odd.body[:at] + named + odd.body[at:])


def _flip(odd: Odd, chance: random.Random) -> Odd:
    if not odd.body:
        return replace(odd, body=b"{}")
    at = chance.randrange(len(odd.body))
    return replace(odd, body=odd.body[:at] + bytes([chance.randrange(256)]) + odd.body[at + chance.randrange(2) :])


def _body(odd: Odd, chance: random.Random) -> Odd:
    return replace(odd, body=chance.choice(_BODIES))


def _framing(odd: Odd, chance: random.Random) -> Odd:
    return replace(odd, framing=chance.choice(_FRAMINGS))


_ODDITIES: tuple[Callable[[Odd, random.Random], Odd], ...] = (
    _path, _other_path, _query, _query, _header, _header, _header, _no_header, _method, _field, _field, _field, _flip,
    _body, _framing,
)  # fmt: skip


def odd_requests(seed: int, count: int) -> list[bytes]:
    """So many, the same for the same seed."""
    chance, drawn = random.Random(seed), []
    for _ in range(count):
        odd = chance.choice(VALID)
        for _ in range(chance.choice([0, 1, 1, 1, 2, 2, 3])):
            odd = chance.choice(_ODDITIES)(odd, chance)
        drawn.append(odd.bytes())
    return drawn
