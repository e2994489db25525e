"""Requests of every route, good and bad, in an order in which each finds what the ones before it left.

`~` stands for the letter of the side that is asked, so that each side has topics and keys of its own, and `$name` for
what an earlier answer gave that name to.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FAR = "from=2026-01-01T00:00:00Z&to=2099-01-01T00:00:00Z"
NO_ID = "2000F6ZY000000004M16D0WDR1"
IDEMPOTENT = ("Idempotency-Key: ~a",)
NDJSON = ("Content-Type: application/x-ndjson",)
ONCE_RETRIED = {"retry": {"max_attempts": 1}}


@dataclass(frozen=True)
class Request:
    """A request, and what both sides answer: the status, and of a refusal the code. `keep`: name -> where in the answer
    stands what it stands for. `here`: the node that is asked answers it without the leader. `without`: members of the
    answer that tell how far the work is, so that they differ."""

    line: str
    told: str
    body: Any = None
    headers: tuple[str, ...] = ()
    keep: Mapping[str, str] = field(default_factory=dict)
    here: bool = False
    without: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """Of its line."""
        return self.line.split(" ")[0]

    @property
    def target(self) -> str:
        """Of its line."""
        return self.line.split(" ", 1)[1]

    @property
    def code(self) -> str:
        """Of the refusal."""
        return self.told.partition(" ")[2]

    def text(self) -> str:
        """The body as it is sent, not yet filled."""
        if self.body is None:
            return ""
        return self.body if isinstance(self.body, str) else json.dumps(self.body)


def lines(*documents: Any) -> str:
    """A batch."""
    return "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in documents)


def _post(told: str, keep: str = "", **message: Any) -> Request:
    names = {keep: "0/id"} if keep else {}
    return Request("POST /v1/messages", told, {"topic": "~.orders", "body": 1, "delay": "30d"} | message, keep=names)


SCHEDULES = (
    _post("201", "first", key="~.k1", tags=["eu", "vip"], headers={"X-A": "b"}, retry={"max_attempts": 3}),
    _post("201", "again", key="~.k1", tags=["eu", "vip"], headers={"X-A": "b"}, retry={"max_attempts": 3}),
    _post("409 key-conflict", key="~.k1"),
    _post("200", key="~.k1", on_conflict="keep"),
    _post("201", "second"),
    Request("PUT /v1/topics/~.push", "200", {"mode": "push", "target": {"url": "https://example.com/a"}}),
    _post("201", "pushed", topic="~.push", target={"url": "https://example.com/b", "method": "PUT", "timeout": "3s"}),
    _post("422 invalid-field", target={"url": "https://example.com/b"}),
    Request(
        "POST /v1/messages", "201", {"topic": "~.orders", "body_base64": "AAEC", "content_type": "a/b", "delay": 9**9}
    ),
    Request("POST /v1/messages", "201", {"topic": "~.orders", "body": None, "deliver_at": "2035-01-01T00:00:00+01:00"}),
    Request("POST /v1/messages", "201", {"topic": "~.orders", "body": "\u00fc\u0000", "delay_level": 18}),
    _post("422 beyond-max-delay", delay="3651d"),
    _post("422 unknown-field", dealy="3m"),
    _post("422 invalid-field", delay="3 m", topic="a/b", tags="eu", key="", headers={"Host": "a"}),
    _post("422 invalid-field", target={"url": "http://0x7f.1/"}),
    _post("422 not-supported-yet", order_key="a"),
    _post("413 too-large", body="a" * 300_000),
    Request("POST /v1/messages", "422 invalid-field", {"topic": "~.orders"}),
    Request(
        "POST /v1/messages", "422 invalid-field", {"topic": "~.orders", "body": 1, "delay": "1m", "delay_level": 1}
    ),
    Request("POST /v1/messages", "422 invalid-field", {"topic": "~.orders", "body": 1, "key": "~.k"}, IDEMPOTENT),
    Request("POST /v1/messages", "201", {"topic": "~.orders", "body": 1, "delay": "30d"}, IDEMPOTENT),
    Request("POST /v1/messages", "201", {"topic": "~.orders", "body": 1, "delay": "30d"}, IDEMPOTENT),
    Request("POST /v1/messages", "422 key-reused", {"topic": "~.orders", "body": 2}, IDEMPOTENT),
    Request("POST /v1/messages?a=b", "422 unknown-field", {"topic": "~.orders", "body": 1}),
    Request("POST /v1/messages", "400 malformed-json", '{"topic": "~.orders", "body": 1'),
    Request("POST /v1/messages", "400 malformed-json", ""),
    Request("POST /v1/messages", "422 invalid-field", "[]"),
    Request("POST /v1/messages", "415 unsupported-media-type", "a=b", ("Content-Type: text/plain",)),
    Request("POST /v1/messages", "415 unsupported-media-type", {}, NDJSON),
    Request("PUT /v1/messages", "405 method-not-allowed", {}),
    Request("POST /v1/transactions", "404 unknown-route", {}),
)

_BATCH = lines(
    {"topic": "~.orders", "body": 1, "delay": "31d", "key": "~.b1"},
    {"topic": "~.orders", "body": 1, "delay": "32d", "key": "~.k1"},
    {"topic": "~.orders", "body": 1, "delay": "33d", "key": "~.k1", "on_conflict": "keep"},
    "no json",
    {"topic": "~.orders", "body": 2, "dealy": 1},
    {"topic": "~.orders", "body": 2, "delay": "3651d"},
    {"topic": "a b", "body": 2},
    {"topic": "~.orders", "body": "a" * 300_000},
    {"topic": "~.orders", "body": 1, "delay": "31d", "key": "~.b1"},
    {"topic": "~.batch", "body": 3, "delay": "34d", "tags": ["eu"]},
    {"topic": "~.orders", "body": 2, "order_key": "a"},
    "[]",
)
BATCHES = (
    Request("POST /v1/messages/batch", "200", _BATCH, NDJSON),
    Request("POST /v1/messages/batch", "200", _BATCH, NDJSON),
    Request(
        "POST /v1/messages/batch?atomic=false", "200", lines({"topic": "~.batch", "body": 1, "delay": "9d"}), NDJSON
    ),
    Request("POST /v1/messages/batch", "200", "no json\n\n[]\n{}\n", NDJSON, here=True),
    Request("POST /v1/messages/batch", "422 invalid-field", "", NDJSON),
    Request("POST /v1/messages/batch?atomic=true", "422 invalid-field", _BATCH, NDJSON),
    Request("POST /v1/messages/batch?atomic=true", "201", lines({"topic": "~.batch", "body": 1, "key": "all"}), NDJSON),
    Request("POST /v1/messages/batch?atomic=false&atomic=false", "422 invalid-field", _BATCH, NDJSON),
    Request("POST /v1/messages/batch?a=b", "422 unknown-field", _BATCH, NDJSON),
    Request("POST /v1/messages/batch", "422 invalid-field", _BATCH, (*NDJSON, *IDEMPOTENT)),
    Request("POST /v1/messages/batch", "415 unsupported-media-type", _BATCH),
    Request("POST /v1/messages/batch", "413 too-large", lines(*[{"topic": "~.batch", "body": 1}] * 10_001), NDJSON),
)

CHANGES = (
    Request("GET /v1/messages/$first", "200"),
    Request("GET /v1/messages/$first?ledger=false", "200", headers=("Accept: text/html",)),
    Request("GET /v1/messages/$pushed?ledger=true", "200"),
    Request("GET /v1/messages/$first?consistency=local", "200", here=True),
    Request("GET /v1/messages/$first?consistency=strong", "422 invalid-field"),
    Request("GET /v1/messages/$first?ledger=maybe", "422 invalid-field"),
    Request("GET /v1/messages/$first?a=b", "422 unknown-field"),
    Request(f"GET /v1/messages/{NO_ID}", "404 unknown-message"),
    Request(f"GET /v1/messages/{NO_ID}?consistency=local", "404 unknown-message", here=True),
    Request("GET /v1/messages/nonsense", "404 unknown-message"),
    Request("PATCH /v1/messages/$first", "200", {"delay": "40d"}, ('If-Match: "1"',)),
    Request("PATCH /v1/messages/$first", "412 revision-mismatch", {"delay": "41d"}, ('If-Match: "1"',)),
    Request("PATCH /v1/messages/$first", "200", {"deliver_at": "2034-01-01T00:00:00Z"}, ("If-Match: *",)),
    Request("PATCH /v1/messages/$first", "200", {"delay_level": 18}),
    Request("PATCH /v1/messages/$first", "422 invalid-field", {"delay": "1d"}, ("If-Match: one",)),
    Request("PATCH /v1/messages/$first", "422 beyond-max-delay", {"delay": "3651d"}),
    Request("PATCH /v1/messages/$first", "422 invalid-field", {}),
    Request("PATCH /v1/messages/$first", "422 invalid-field", {"delay": "1m", "delay_level": 1}),
    Request("PATCH /v1/messages/$first", "422 unknown-field", {"dealy": "1m"}),
    Request("PATCH /v1/messages/$first", "422 key-reused", {"delay": "1m"}, IDEMPOTENT),
    Request("PATCH /v1/messages/$first", "400 malformed-json", "{"),
    Request("PATCH /v1/messages/$first", "415 unsupported-media-type", "{}", ("Content-Type: text/plain",)),
    Request(f"PATCH /v1/messages/{NO_ID}", "404 unknown-message", {"delay": "1m"}),
    Request("DELETE /v1/messages/$second", "412 revision-mismatch", headers=('If-Match: "7"',)),
    Request("DELETE /v1/messages/$second", "200", headers=('If-Match: W/"1"',)),
    Request("DELETE /v1/messages/$second", "200"),
    Request("PATCH /v1/messages/$second", "409 already-settled", {"delay": "1m"}),
    Request("DELETE /v1/messages/$second?a=b", "422 unknown-field"),
    Request("DELETE /v1/messages/$second", "422 invalid-field", headers=("If-Match: one",)),
    Request("DELETE /v1/messages/$second", "422 key-reused", headers=IDEMPOTENT),
    Request(f"DELETE /v1/messages/{NO_ID}", "404 unknown-message"),
    Request("DELETE /v1/messages/nonsense", "404 unknown-message"),
    Request("GET /v1/messages/$second", "200"),
    Request("POST /v1/messages/$second", "405 method-not-allowed", {}),
)


def _queries(path: str, *more: str) -> tuple[Request, ...]:
    """What all lists and counts take, and refuse."""
    join = "&" if "?" in path else "?"
    bad = ("from=yesterday", "from=2026-11-22T00:00:00Z&to=2026-11-21T00:00:00Z", "topic=a%20b", *more)
    return (
        *(Request(f"GET {path}{join}{each}", "422 invalid-field") for each in bad),
        Request(f"GET {path}{join}a=b", "422 unknown-field"),
        Request(f"GET {path}{join}from=1&from=2", "422 invalid-field"),
        Request(f"GET {path}{join}tag=%ff", "422 invalid-field"),
    )


#: Members of an operation that runs.
SO_FAR = ("changed", "matched", "prior", "progress", "ended")
_FAR_MS = 9_000_000_000_000
OPERATIONS = (
    *(
        Request(f"POST {path}", said, more | body, headers)
        for path, more in (("/v1/operations", {"kind": "cancel"}), ("/v1/messages/cancel", {}))
        for said, body, headers in (
            ("404 unknown-topic", {"topic": "~.none"}, ()),
            ("422 invalid-field", {}, ()),
            ("422 invalid-field", {"topic": "*"}, ()),
            ("422 invalid-field", {"topic": [], "note": "\n", "confirm": -1, "dry_run": 1, "tag": ""}, ()),
            ("422 invalid-field", {"topic": ["~.orders", "~.orders"], "note": "a" * 201}, ()),
            ("422 invalid-field", {"topic": "~.orders", "from": 1_900_000_000_000, "to": 1_800_000_000_000}, ()),
            ("422 unknown-field", {"topic": "~.orders", "a": 1}, ()),
            ("422 key-reused", {"topic": "~.orders"}, IDEMPOTENT),
            ("200", {"topic": ["~.orders"], "tag": "nowhere", "from": 1_700_000_000_000}, ()),
        )
    ),
    Request("POST /v1/operations", "422 invalid-field", {"kind": "cancel", "topic": "~.orders", "by": "1h"}),
    Request("POST /v1/operations", "422 invalid-field", {"kind": "shift", "topic": "~.orders"}),
    Request("POST /v1/operations", "422 beyond-max-delay", {"kind": "shift", "topic": "~.orders", "to_due": _FAR_MS}),
    Request("POST /v1/messages/shift", "422 beyond-max-delay", {"topic": "~.orders", "to_due": _FAR_MS}),
    Request("POST /v1/messages/shift", "422 invalid-field", {"topic": "~.orders", "by": "-", "rate": 0}),
    Request("POST /v1/messages/shift", "422 unknown-field", {"topic": "~.orders", "reason": "timeout"}),
    Request("POST /v1/messages/shift", "422 key-reused", {"topic": "~.orders", "by": "1h"}, IDEMPOTENT),
    Request("POST /v1/messages/shift", "415 unsupported-media-type", {"topic": "~.orders", "by": "1h"}, NDJSON),
    Request("POST /v1/messages/shift", "404 unknown-topic", {"topic": "~.none", "by": "1h"}),
    Request("POST /v1/messages/shift", "200", {"topic": "~.orders", "by": "1h", "tag": "nowhere"}),
    *(Request("POST /v1/messages", "201", {"topic": "~.slow", "body": 1, "delay": "30d"}) for _ in range(30)),
    Request("POST /v1/messages", "201", {"topic": "~.slow", "body": 1, "delay": "31d", "key": "~.slow"}),
    Request(
        "POST /v1/operations",
        "202",
        {"kind": "release", "topic": "~.slow", "rate": 1},
        keep={"slow": "0/id"},
        without=SO_FAR,
    ),
    Request("POST /v1/operations", "409 in-progress", {"kind": "shift", "topic": "~.slow", "by": "1h"}),
    Request("POST /v1/messages/shift", "409 in-progress", {"topic": "~.slow", "by": "1h"}),
    Request(
        "POST /v1/messages",
        "409 in-progress",
        {"topic": "~.slow", "body": 2, "key": "~.slow", "on_conflict": "extend", "extend": {"body": "first"}},
    ),
    Request("POST /v1/messages/redrive", "409 in-progress", {"topic": "~.slow"}),
    *(
        each
        for verb, end in (("pause", "$slow"), ("resume", "$slow"), ("abort", "$slow"))
        for each in (
            Request(f"POST /v1/operations/{end}/{verb}", "200", without=SO_FAR),
            Request(f"POST /v1/operations/op-0/{verb}", "404 unknown-operation"),
            Request(f"POST /v1/operations/op-0/{verb}?a=b", "422 unknown-field"),
            Request(f"POST /v1/operations/op-0/{verb}", "422 unknown-field", {"a": 1}),
        )
    ),
    *(Request(f"POST /v1/operations/$slow/{verb}", "409 already-settled") for verb in ("pause", "resume", "abort")),
    Request("POST /v1/operations", "422 invalid-field", {"kind": "melt", "topic": "~.orders"}),
    Request("POST /v1/operations?a=b", "422 unknown-field", {"kind": "cancel", "topic": "~.orders"}),
    Request("GET /v1/operations?limit=2", "200"),
    Request("GET /v1/operations?limit=0", "422 invalid-field"),
    Request("GET /v1/operations?cursor=nonsense", "422 invalid-field"),
    Request("GET /v1/operations?topic=a", "422 unknown-field"),
    Request("GET /v1/operations/op-0", "404 unknown-operation"),
    Request("GET /v1/operations/nonsense", "404 unknown-operation"),
    Request("GET /v1/operations/op-0?a=b", "422 unknown-field"),
    Request("DELETE /v1/operations/op-0", "405 method-not-allowed"),
)
COUNTS = (
    Request("GET /v1/messages/count", "200"),
    Request("GET /v1/messages/count?topic=~.orders", "200"),
    Request("GET /v1/messages/count?topic=~.orders&state=scheduled,cancelled&tag=eu", "200"),
    Request(f"GET /v1/messages/count?topic=~.orders&{FAR}", "200"),
    Request("GET /v1/messages/count?topic=~.none", "404 unknown-topic"),
    *_queries("/v1/messages/count", "state=gone"),
    Request("GET /v1/messages/histogram?topic=~.orders&step=30d", "200"),
    Request("GET /v1/messages/histogram?topic=~.orders&tag=eu&state=scheduled&step=10d", "200"),
    Request("GET /v1/messages/histogram?topic=~.orders&step=1s", "422 invalid-field"),
    Request("GET /v1/messages/histogram?topic=~.none", "404 unknown-topic"),
    *_queries("/v1/messages/histogram", "step=0", "state=gone"),
    Request("GET /v1/messages/histogram?topic=~.orders", "200"),
    Request("GET /v1/messages/histogram?from=0001-01-01T00:00:00Z", "200"),
    Request("GET /v1/messages/histogram?from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z", "200"),
    Request("GET /v1/wheel?topic=~.orders", "200"),
    Request("GET /v1/wheel?hour=0001-01-01T00:00:00Z", "200"),
    Request("GET /v1/wheel?hour=9999-12-31T23:59:59Z", "200"),
    Request("GET /v1/wheel?topic=~.none", "404 unknown-topic"),
    Request("GET /v1/wheel?hour=5", "422 invalid-field"),
    Request("GET /v1/wheel?from=1800000000000", "422 unknown-field"),
    Request("GET /v1/messages?topic=~.orders&limit=2&body=false", "200"),
    Request("GET /v1/messages?topic=~.orders&tag=eu&state=scheduled,leased", "200"),
    Request("GET /v1/messages?topic=~.none", "404 unknown-topic"),
    *_queries("/v1/messages", "limit=0", "body=no", "state=gone", "cursor=x"),
    Request("GET /v1/messages?order_key=k", "422 not-supported-yet"),
    Request(f"GET /v1/ledger?topic=~.orders&{FAR}", "200"),
    Request(
        f"GET /v1/ledger?topic=~.orders&class=pending,cancelled&limit=2&{FAR}", "200", keep={"page": "0/next_cursor"}
    ),
    Request(f"GET /v1/ledger?topic=~.orders&class=pending,cancelled&limit=2&{FAR}&cursor=$page", "200"),
    Request("GET /v1/ledger?topic=~.none", "404 unknown-topic"),
    *_queries("/v1/ledger", "class=gone", "limit=0", "cursor=nonsense"),
    Request(f"GET /v1/ledger/summary?topic=~.orders&{FAR}", "200"),
    Request("GET /v1/ledger/summary", "200"),
    Request("GET /v1/ledger/summary?topic=~.none", "404 unknown-topic"),
    *_queries("/v1/ledger/summary"),
)

_HOOK = {"url": "https://example.com/hook", "headers": {"A": "b"}, "timeout": "10s"}
TOPICS = (
    Request("PUT /v1/topics/~.hooks", "200", {"mode": "push", "target": _HOOK, "dead_letter": "~.hooks.dead"}),
    Request("PUT /v1/topics/~.hooks", "412 revision-mismatch", {}, ('If-Match: "9"',)),
    Request("PUT /v1/topics/~.hooks", "200", {"lease": "1m", "handover": "strict"}, ('If-Match: "1"',)),
    Request("PUT /v1/topics/~.hooks", "200"),
    Request("PUT /v1/topics/~.hooks", "422 invalid-field", {"mode": "shove", "retry": {"max_attempts": 0}}),
    Request("PUT /v1/topics/~.hooks", "422 invalid-field", {"target": {"url": "http://2130706433/"}}),
    Request("PUT /v1/topics/~.hooks", "422 invalid-field", {"dead_letter": "~.hooks"}),
    Request("PUT /v1/topics/~.hooks", "422 invalid-field", {}, ("If-Match: one",)),
    Request("PUT /v1/topics/~.hooks", "422 unknown-field", {"pausd": True}),
    Request("PUT /v1/topics/~.hooks", "422 not-supported-yet", {"rate": 1}),
    Request("PUT /v1/topics/~.hooks", "422 key-reused", {}, IDEMPOTENT),
    Request("PUT /v1/topics/a%2fb", "422 invalid-field", {}),
    Request("PUT /v1/topics/~.hooks", "400 malformed-json", "{"),
    Request("PATCH /v1/topics/~.hooks", "200", {"paused": True, "target": _HOOK, "retry": {"max_age": "7d"}}),
    Request("PATCH /v1/topics/~.hooks", "200", {"target": {"timeout": None}}, ('If-Match: "4"',)),
    Request("PATCH /v1/topics/~.hooks", "412 revision-mismatch", {}, ('If-Match: "1"',)),
    Request("PATCH /v1/topics/~.none", "404 unknown-topic", {}),
    Request("PATCH /v1/topics/~.hooks", "422 invalid-field", {"lease": "1ms"}),
    Request("PATCH /v1/topics/~.hooks", "422 unknown-field", {"pausd": True}),
    Request("PATCH /v1/topics/~.hooks", "422 not-supported-yet", {"rate": 1}),
    Request("PATCH /v1/topics/~.hooks", "422 key-reused", {}, IDEMPOTENT),
    Request("PUT /v1/topics/~.gone", "200", {}, ("Idempotency-Key: ~gone",)),
    Request("DELETE /v1/topics/~.gone", "200"),
    Request("PUT /v1/topics/~.gone", "404 unknown-topic", {}, ("Idempotency-Key: ~gone",)),
    Request("GET /v1/topics/~.hooks", "200"),
    Request("GET /v1/topics/~.none", "404 unknown-topic"),
    Request("GET /v1/topics/~.hooks?a=b", "422 unknown-field"),
    Request("GET /v1/topics/a%20b", "422 invalid-field"),
    Request("GET /v1/topics?counts=false", "200"),
    Request("GET /v1/topics?cursor=~.hooks&limit=1&counts=false", "200"),
    Request("GET /v1/topics?limit=1001", "422 invalid-field"),
    Request("GET /v1/topics?cursor=a%20b&counts=maybe", "422 invalid-field"),
    Request("GET /v1/topics?a=b", "422 unknown-field"),
    Request("DELETE /v1/topics/~.orders", "409 not-empty"),
    Request("DELETE /v1/topics/~.hooks", "412 revision-mismatch", headers=('If-Match: "1"',)),
    Request("DELETE /v1/topics/~.hooks", "422 invalid-field", headers=("If-Match: one",)),
    Request("DELETE /v1/topics/~.hooks?pending=cancel", "422 not-supported-yet"),
    Request("DELETE /v1/topics/~.hooks?a=b", "422 unknown-field"),
    Request("DELETE /v1/topics/~.hooks", "422 key-reused", headers=IDEMPOTENT),
    Request("DELETE /v1/topics/~.hooks", "200", headers=('If-Match: "5"',)),
    Request("DELETE /v1/topics/~.hooks", "404 unknown-topic"),
    Request("POST /v1/topics/~.hooks", "405 method-not-allowed", {}),
    Request("GET /v1/topics/~.hooks/subscriptions", "404 unknown-route"),
)
