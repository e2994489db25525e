"""Operations of /v1/topics, as the document shows them: replace, merge, show, list, delete a topic's settings."""

from typing import Any, Final

from api.contract import schema
from api.contract.operation import CURSOR, IF_MATCH, LIMIT, REVISION, Example, Operation, Parameter, ok
from api.contract.retry import RETRY_SCHEMA
from api.contract.schema import Schema
from api.contract.shape import Shape, nullable, page, sent
from api.contract.target import TARGET_SCHEMA
from api.port.queries import STATES

_MODE: Final = schema.choice(("pull", "push"))
_HANDOVER: Final = schema.choice(("fast", "strict"))
_SECRET: Final[Schema] = {
    **schema.text(128),
    "writeOnly": True,
    "description": "whsec_ and the base64 of 24 to 64 bytes. It signs pushes.",
}


def _settings(name: str, *, whole: bool) -> Shape:
    """Return the shape of sent settings. Null takes one away; with `whole` null is the same as leaving out."""
    target = {**TARGET_SCHEMA, "properties": {**TARGET_SCHEMA["properties"], "secret": _SECRET}}
    if not whole:
        del target["required"]
    members: dict[str, Any] = {
        "mode": _MODE,
        "target": nullable(_with_nulls(target)),
        "retry": nullable(_with_nulls(RETRY_SCHEMA)),
        "lease": {**schema.DURATION, "description": "1s to 12h: how long a pulled message is its consumer's."},
        "handover": _HANDOVER,
        "dead_letter": nullable(schema.TOPIC),
        "paused": schema.FLAG,
    }
    return sent(name, members)


def _with_nulls(outer: Schema) -> Schema:
    members = outer["properties"].items()
    return {**outer, "properties": {name: each if name == "url" else nullable(each) for name, each in members}}


_TARGET: Final = Shape(
    "TopicTarget",
    {
        "url": schema.WORD,
        "method": schema.WORD,
        "headers": schema.HEADERS,
        "timeout": nullable(schema.TIMESPAN),
        "secret_set": schema.FLAG,
    },
)
_RETRY: Final = Shape(
    "TopicRetry",
    {
        "max_attempts": schema.COUNT,
        "min_backoff": schema.TIMESPAN,
        "max_backoff": schema.TIMESPAN,
        "max_age": schema.TIMESPAN,
    },
)
_COUNTS: Final = Shape("Counts", dict.fromkeys(STATES, schema.COUNT))
_TOPIC: Final = Shape(
    "Topic",
    {
        "topic": schema.TOPIC,
        "mode": _MODE,
        "target": nullable(_TARGET),
        "retry": _RETRY,
        "lease": schema.TIMESPAN,
        "handover": _HANDOVER,
        "dead_letter": nullable(schema.TOPIC),
        "paused": schema.FLAG,
        "revision": schema.COUNT,
        "created": schema.AT,
        "counts": _COUNTS,
    },
    optional=("counts",),
)
_CREATED: Final = "2026-11-21T14:05:27.346Z"


def _shown(topic: str, retry: dict[str, Any], revision: int = 1, **settings: Any) -> dict[str, Any]:
    return {
        "topic": topic,
        "mode": "pull",
        "target": None,
        "retry": {"max_attempts": 16, "min_backoff": "1s", "max_backoff": "1h", "max_age": "0s", **retry},
        "lease": "30s",
        "handover": "fast",
        "dead_letter": None,
        "paused": False,
        "revision": revision,
        "created": _CREATED,
        **settings,
    }


def _target(timeout: str | None) -> dict[str, Any]:
    headers = {"Authorization": "Bearer t"}
    return {
        "url": "https://example.com/hook",
        "method": "POST",
        "headers": headers,
        "timeout": timeout,
        "secret_set": True,
    }


_PATCHED: Final = _shown(
    "hooks",
    {"max_attempts": 10, "min_backoff": "2s", "max_age": "7d"},
    2,
    mode="push",
    target=_target(None),
    dead_letter="hooks.dead",
    paused=True,
)

LIST: Final = Operation(
    "listTopics",
    "List topics",
    ok(page("Topics", _TOPIC), "By name, with messages by state."),
    parameters=(
        Parameter("counts", {**schema.choice(("true", "false")), "default": "true"}, "false: without messages."),
        LIMIT,
        CURSOR,
    ),
    examples=(
        Example(
            "second",
            "/v1/topics?counts=false&limit=1&cursor=jobs",
            {"items": [_shown("orders", {})], "next_cursor": "orders"},
            turn=3,
        ),
    ),
)
REPLACE: Final = Operation(
    "putTopic",
    "Set all settings of a topic",
    ok(_TOPIC, "What was left out has its default.", **REVISION),
    parameters=(IF_MATCH,),
    request=_settings("TopicSettings", whole=True),
    optional=True,
    errors=("revision-mismatch",),
    examples=(
        Example(
            "pushed",
            "/v1/topics/hooks",
            _shown(
                "hooks",
                {"max_attempts": 10, "min_backoff": "2s"},
                mode="push",
                target=_target("10s"),
                dead_letter="hooks.dead",
            ),
            200,
            {
                "mode": "push",
                "target": {
                    "url": "https://example.com/hook",
                    "headers": {"Authorization": "Bearer t"},
                    "timeout": "10s",
                    "secret": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                },
                "retry": {"max_attempts": 10, "min_backoff": "2s"},
                "dead_letter": "hooks.dead",
            },
        ),
        Example(
            "pulled-once",
            "/v1/topics/payments",
            _shown("payments", {"max_attempts": 1}),
            200,
            {"retry": {"max_attempts": 1}},
        ),
    ),
)
MERGE: Final = Operation(
    "patchTopic",
    "Change some settings of a topic",
    ok(_TOPIC, "`target` and `retry` are merged member by member; null takes away.", **REVISION),
    parameters=(IF_MATCH,),
    request=_settings("TopicChange", whole=False),
    optional=True,
    errors=("unknown-topic", "revision-mismatch"),
    examples=(
        Example(
            "paused",
            "/v1/topics/hooks",
            _PATCHED,
            200,
            {"paused": True, "target": {"timeout": None}, "retry": {"max_age": "7d"}},
            {"If-Match": '"1"'},
        ),
    ),
)
SHOW: Final = Operation(
    "getTopic",
    "Show a topic",
    ok(_TOPIC, **REVISION),
    errors=("unknown-topic",),
    examples=(Example("pushed", "/v1/topics/hooks", _PATCHED),),
)
DELETE: Final = Operation(
    "deleteTopic",
    "Delete a topic that has no message which has not ended",
    ok(
        Shape("Deleted", {"topic": schema.TOPIC, "result": schema.choice(("deleted",))}),
        "Its keys are forgotten, and its dead messages no longer listed.",
    ),
    parameters=(IF_MATCH,),
    errors=("unknown-topic", "not-empty", "revision-mismatch", "over-limit", "change-in-progress"),
    examples=(Example("deleted", "/v1/topics/hooks", {"topic": "hooks", "result": "deleted"}),),
)
