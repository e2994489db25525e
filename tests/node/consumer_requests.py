"""Requests of consumers: pull, ack, nack and extend, good and bad, and what becomes of messages that they give up."""

from typing import Any

from tests.node.every_request import FAR, IDEMPOTENT, NDJSON, Request

_JOBS, _ONCE = "/v1/topics/~.jobs", "/v1/topics/~.once"


def _message(topic: str, keep: str, **more: Any) -> Request:
    return Request("POST /v1/messages", "201", {"topic": topic, "body": {"n": 1}} | more, keep={keep: "0/id"})


def _pull(path: str, receipt: str, **more: Any) -> Request:
    found = {receipt: "0/messages/0/receipt"}
    return Request(f"POST {path}/pull", "200", {"max": 1, "wait": "20s", "lease": "1m"} | more, keep=found)


def _receipts(verb: str, *receipts: str, path: str = _JOBS, **more: Any) -> Request:
    return Request(f"POST {path}/{verb}", "200", {"receipts": receipts} | more)


def _refused(verb: str, good: dict[str, Any], *bad: dict[str, Any]) -> tuple[Request, ...]:
    """What all requests with receipts, and pulls, refuse."""
    at = f"POST {_JOBS}/{verb}"
    return (
        *(Request(at, "422 invalid-field", good | each) for each in bad),
        Request(f"POST /v1/topics/~.none/{verb}", "200" if verb == "pull" else "404 unknown-topic", good),
        Request(f"POST /v1/topics/a%20b/{verb}", "422 invalid-field", good),
        Request(f"{at}?a=b", "422 unknown-field", good),
        Request(at, "422 unknown-field", good | {"leese": "1m"}),
        Request(at, "422 not-supported-yet", good | {"subscription": "a"}),
        Request(at, "422 invalid-field", good, IDEMPOTENT),
        Request(at, "400 malformed-json", "{"),
        Request(at, "415 unsupported-media-type", good, NDJSON),
        Request(f"GET {_JOBS}/{verb}", "405 method-not-allowed"),
    )


_NONE = {"receipts": ["nonsense"]}
_BAD: tuple[dict[str, Any], ...] = (
    {"receipts": []},
    {"receipts": "a"},
    {"receipts": [1]},
    {"receipts": ["a"] * 10_001},
)

PULLS = (
    Request("PUT /v1/topics/~.jobs", "200", {"retry": {"min_backoff": "1ms", "max_backoff": "1ms"}}),
    Request(f"POST {_JOBS}/pull", "200", {"max": 3}),
    Request(f"POST {_JOBS}/pull", "200", {"wait": "60ms", "tags": "eu && vip || 'a b'"}),
    Request(f"POST {_JOBS}/pull", "200"),
    _message("~.jobs", "job", tags=["eu"], headers={"X-A": "b"}, key="~.job", retry={"max_attempts": 9}),
    _pull(_JOBS, "r1", tags="eu"),
    Request("GET /v1/messages/$job", "200"),
    Request("PATCH /v1/messages/$job", "409 leased", {"delay": "1m"}),
    Request("DELETE /v1/messages/$job", "409 leased"),
    Request(
        "POST /v1/messages", "409 leased", {"topic": "~.jobs", "body": 1, "key": "~.job", "on_conflict": "replace"}
    ),
    Request("DELETE /v1/topics/~.jobs", "409 not-empty"),
    _receipts("extend", "$r1", lease="5m"),
    _receipts("extend", "$r1", "$r1", "nonsense"),
    _receipts("nack", "$r1", delay="1ms"),
    _receipts("nack", "$r1", delay="1ms"),
    _receipts("extend", "$r1"),
    _pull(_JOBS, "r2"),
    _receipts("nack", "$r2", counted=False),
    _pull(_JOBS, "r3"),
    _receipts("ack", "$r3", "$r1", "nonsense", "\u00fc", "a" * 600),
    _receipts("ack", "$r3", "$r2"),
    _receipts("nack", "$r3"),
    Request("PATCH /v1/messages/$job", "409 already-settled", {"delay": "1m"}),
    Request("DELETE /v1/messages/$job", "409 already-settled"),
    Request("GET /v1/messages/$job", "200"),
    Request("POST /v1/messages", "201", {"topic": "~.jobs", "body_base64": "AAEC", "content_type": "image/png"}),
    _pull(_JOBS, "r4"),
    _receipts("ack", "$r4"),
    _message("~.jobs", "large", body="a" * 200_000),
    _pull(_JOBS, "r5"),
    _receipts("ack", "$r5", "$r4"),
    Request(f"POST {_JOBS}/ack", "200", {"receipts": ["\u00fc", "a" * 600]}, here=True),
    Request(f"POST {_JOBS}/ack", "200", {"receipts": ["nonsense"] * 10_000}),
    *_refused("pull", {}, {"max": 0}, {"max": 1_001}, {"wait": "31s"}, {"lease": "1ms"}, {"tags": "a &&"}),
    *_refused("ack", _NONE, *_BAD),
    *_refused("nack", _NONE, *_BAD, {"delay": "1 s"}, {"counted": 1}),
    Request(f"POST {_JOBS}/nack", "422 beyond-max-delay", _NONE | {"delay": "3651d"}),
    *_refused("extend", _NONE, *_BAD, {"lease": "13h"}),
    Request(f"POST {_JOBS}/shove", "404 unknown-route", {}),
)

DEATHS = (
    Request("PUT /v1/topics/~.once", "200", {"retry": {"max_attempts": 1}, "dead_letter": "~.once.dead"}),
    _message("~.once", "gone", tags=["eu"], key="~.gone"),
    _pull(_ONCE, "r6"),
    _receipts("nack", "$r6", path=_ONCE),
    _message("~.once", "gone2"),
    _pull(_ONCE, "r7"),
    _receipts("nack", "$r7", path=_ONCE),
    Request("GET /v1/messages/$gone", "200"),
    _pull("/v1/topics/~.once.dead", "r8"),
    Request(f"GET {_ONCE}/dead", "200"),
    Request(f"GET {_ONCE}/dead?tag=eu&limit=10", "200"),
    Request(f"GET {_ONCE}/dead?limit=1&{FAR}", "200", keep={"rest": "0/next_cursor"}),
    Request(f"GET {_ONCE}/dead?limit=1&{FAR}&cursor=$rest", "200"),
    Request("GET /v1/topics/~.none/dead", "404 unknown-topic"),
    Request(f"GET {_ONCE}/dead?from=yesterday&limit=0", "422 invalid-field"),
    Request(f"GET {_ONCE}/dead?cursor=nonsense", "422 invalid-field"),
    Request(f"GET {_ONCE}/dead?a=b", "422 unknown-field"),
    Request("POST /v1/messages/redrive", "200", {"topic": "~.once", "tag": "eu", "dry_run": True}),
    Request("POST /v1/messages/redrive", "200", {"topic": "~.once", "tag": "eu"}),
    Request("POST /v1/messages/redrive", "422 invalid-field", {"topic": "~.once", "reason": "hunger"}),
    Request("POST /v1/messages/redrive", "200", {"topic": "~.once", "from": 1_700_000_000_000, "dry_run": True}),
    Request("POST /v1/messages/redrive", "404 unknown-topic", {"topic": "~.none"}),
    Request("POST /v1/messages/redrive", "422 invalid-field", {"topic": "a b", "dry_run": 1}),
    Request("POST /v1/messages/redrive", "422 invalid-field", {}),
    Request("POST /v1/messages/redrive", "422 unknown-field", {"topic": "~.once", "a": 1}),
    Request("POST /v1/messages/redrive", "422 key-reused", {"topic": "~.once"}, IDEMPOTENT),
    Request("POST /v1/messages/redrive", "415 unsupported-media-type", {"topic": "~.once"}, NDJSON),
    Request("GET /v1/messages/$gone", "200"),
    _pull(_ONCE, "r9"),
    _receipts("ack", "$r9", path=_ONCE),
    Request(f"GET /v1/ledger?topic=~.once&{FAR}", "200"),
    Request(f"GET /v1/ledger/summary?topic=~.once&{FAR}", "200"),
    Request("PUT /v1/topics/~.strict", "200", {"handover": "strict"}),
    _message("~.strict", "sure"),
    _pull("/v1/topics/~.strict", "r10"),
    _receipts("ack", "$r10", path="/v1/topics/~.strict"),
    Request("PATCH /v1/topics/~.strict", "200", {"paused": True}),
    _message("~.strict", "held"),
    Request("POST /v1/topics/~.strict/pull", "200", {"wait": "30ms"}),
    Request("DELETE /v1/messages/$held", "200"),
    Request("DELETE /v1/topics/~.strict", "200"),
    Request("GET /v1/messages/$held", "200"),
)

TOPICS_MAX = 36
CROWDED = (
    *(Request(f"PUT /v1/topics/~.crowd{number}", "200", {}) for number in range(TOPICS_MAX // 2)),
    Request("POST /v1/messages", "429 over-limit", {"topic": "~.over", "body": 1, "delay": "1d"}),
    Request("POST /v1/messages", "201", {"topic": "~.crowd1", "body": 1, "delay": "1d"}),
    Request(
        "POST /v1/messages/batch",
        "200",
        '{"topic": "~.over", "body": 1}\n{"topic": "~.crowd1", "body": 1, "delay": "1d"}\n{}\n',
        NDJSON,
    ),
    Request("PATCH /v1/messages/$first", "429 over-limit", {"delay": "1d"}),
    Request("POST /v1/topics/~.jobs/pull", "429 over-limit", {"wait": "1s", "tags": "eu"}),
    Request("GET /v1/topics", "200"),
    Request("GET /v1/topics?limit=1000&counts=false", "200"),
)
"""Where there are as many topics, changes of a message and filters of pulls as there may be."""
