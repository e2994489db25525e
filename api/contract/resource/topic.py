"""Operations of /v1/topics, as the document shows them: replace, merge, show, list, delete a topic's settings."""

from typing import Any, Final

from api.contract import schema
from api.contract.operation import CURSOR, IF_MATCH, LIMIT, REVISION, Example, Operation, Parameter, ok
from api.contract.retry import RETRY_SCHEMA, show_retry
from api.contract.schema import Schema
from api.contract.shape import Shape, nullable, page, sent
from api.contract.target import METHODS, TARGET_SCHEMA
from api.port.duration import render_duration
from api.port.port import RETRY_DEFAULTS, TOPIC_DEFAULTS
from api.port.queries import STATES

_MODE: Final = schema.said(schema.choice(("pull", "push")), "Whether consumers pull, or webhooks are pushed.")
_HANDOVER: Final = schema.said(schema.choice(("fast", "strict")), "Whether a delivery waits for its record on disk.")
_PAUSED: Final = schema.said(schema.FLAG, "true: no message is delivered.")
_DEAD_LETTER: Final = schema.said(nullable(schema.TOPIC), "The topic that gets a copy of each dead message.")
_RETRY_DEFAULT: Final = show_retry(RETRY_DEFAULTS)
_SECRET: Final[Schema] = {
    **schema.text(128),
    "writeOnly": True,
    "x-bound": "`whsec_` and the base64 of 24 to 64 bytes",
    "description": "Signs the webhooks; it is never shown.",
}


def _settings(name: str, *, whole: bool) -> Shape:
    """Return the shape of the settings in a PATCH, or with `whole` in a PUT. Null takes a setting away; in a PUT it is
    the same as leaving the setting out."""
    target = {**TARGET_SCHEMA, "properties": {**TARGET_SCHEMA["properties"], "secret": _SECRET}}
    if not whole:
        del target["required"]
    members: dict[str, Any] = {
        "mode": _MODE,
        "target": schema.said(nullable(_with_nulls(target)), "Where webhooks go."),
        "retry": schema.said(nullable(_with_nulls(RETRY_SCHEMA)), "When a failed delivery is tried again."),
        "lease": schema.duration("1s to 12h", "How long a pulled message is its consumer's."),
        "handover": _HANDOVER,
        "dead_letter": _DEAD_LETTER,
        "paused": _PAUSED,
    }
    return sent(name, _with_defaults(members) if whole else members)


def _with_nulls(outer: Schema) -> Schema:
    """Return the schema with null allowed for each member, which takes the member away. A member that is left out stays
    as it is, so the schema names no defaults."""
    members = {name: _without_default(each) for name, each in outer["properties"].items()}
    return {**outer, "properties": {name: each if name == "url" else _or_null(each) for name, each in members.items()}}


def _without_default(value: Schema) -> Schema:
    return {name: each for name, each in value.items() if name != "default"}


def _or_null(value: Schema) -> Schema:
    return schema.said(nullable(_without_words(value)), value["description"])


def _without_words(value: Schema) -> Schema:
    return {name: each for name, each in value.items() if name != "description"}


def _with_defaults(members: dict[str, Any]) -> dict[str, Any]:
    """Return the members, each with the value that a PUT sets if the request leaves the member out."""
    retry = members["retry"]
    policy = {name: {**each, "default": _RETRY_DEFAULT[name]} for name, each in retry["properties"].items()}
    target = members["target"]
    method = {**target["properties"]["method"], "default": METHODS[0]}
    return {
        **members,
        "mode": {**members["mode"], "default": TOPIC_DEFAULTS.mode},
        "target": {**target, "properties": {**target["properties"], "method": method}},
        "retry": {**retry, "properties": policy},
        "lease": {**members["lease"], "default": render_duration(TOPIC_DEFAULTS.lease_ms or 0)},
        "handover": {**members["handover"], "default": TOPIC_DEFAULTS.handover},
        "paused": {**members["paused"], "default": TOPIC_DEFAULTS.paused},
    }


_TARGET: Final = Shape(
    "TopicTarget",
    {
        "url": schema.said(schema.WORD, "Where webhooks go."),
        "method": schema.said(schema.WORD, "Their method."),
        "headers": schema.said(schema.HEADERS, "Sent with each; those of the message win."),
        "timeout": schema.said(nullable(schema.TIMESPAN), "How long one may take; null is the node's own."),
        "secret_set": schema.said(schema.FLAG, "Whether a secret signs them."),
    },
)
_RETRY: Final = Shape(
    "TopicRetry",
    {
        "max_attempts": schema.said(schema.COUNT, "After so many attempts a message is dead."),
        "min_backoff": schema.said(schema.TIMESPAN, "The wait after the first failure."),
        "max_backoff": schema.said(schema.TIMESPAN, "The wait doubles up to this."),
        "max_age": schema.said(schema.TIMESPAN, "No attempt starts so long after the due time; `0s`: no limit."),
    },
    "When a failed delivery is tried again.",
)
_COUNTS: Final = Shape("Counts", dict.fromkeys(STATES, schema.COUNT), "How many messages there are in each state.")
_HELD: Final = Shape(
    "TopicHeld",
    {"operation": schema.said(schema.COUNT, "So many wait for a paused operation.")},
    "How many open messages are held, if any are.",
)
_TOPIC: Final = Shape(
    "Topic",
    {
        "topic": schema.NAMED,
        "mode": _MODE,
        "target": schema.said(nullable(_TARGET), "Where webhooks go."),
        "retry": _RETRY,
        "lease": schema.said(schema.TIMESPAN, "How long a pulled message is its consumer's."),
        "handover": _HANDOVER,
        "dead_letter": _DEAD_LETTER,
        "paused": _PAUSED,
        "revision": schema.REVISION,
        "created": schema.said(schema.AT, "When the topic was made."),
        "counts": _COUNTS,
        "held": _HELD,
    },
    optional=("counts", "held"),
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
    ok(page("Topics", _TOPIC), "Topics by name, with their messages by state."),
    parameters=(
        Parameter(
            "counts", {**schema.choice(("true", "false")), "default": "true"}, "false: without the messages by state."
        ),
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
    ok(_TOPIC, "A setting that was left out has its default.", **REVISION),
    parameters=(IF_MATCH,),
    request=_settings("TopicSettings", whole=True),
    optional=True,
    errors=("unknown-topic", "revision-mismatch"),
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
    ok(_TOPIC, "`target` and `retry` are merged field by field; null takes away.", **REVISION),
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
    "Delete a topic that has no open message",
    ok(
        Shape(
            "Deleted", {"topic": schema.NAMED, "result": schema.said(schema.choice(("deleted",)), "What it is now.")}
        ),
        "Its keys are forgotten, and its dead messages are no longer listed.",
    ),
    parameters=(IF_MATCH,),
    errors=("unknown-topic", "not-empty", "revision-mismatch", "over-limit", "change-in-progress"),
    examples=(Example("deleted", "/v1/topics/hooks", {"topic": "hooks", "result": "deleted"}),),
)
