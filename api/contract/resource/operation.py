"""The resource of operations, which change many messages at once, as the document shows it."""

from typing import Final

from api.contract import schema
from api.contract.operation import CURSOR, JSON, LIMIT, Answered, Example, Operation
from api.contract.shape import Shape, nullable, page, sent
from api.port.queries import GONE, KIND_FIELDS, NOTE_BYTES_MAX, RATE_MAX, REASON_BYTES_MAX, TOPICS_MAX

_COUNTED: Final = Shape("Prior", {
    "none": schema.said(schema.COUNT, "They had no delivery."),
    "known": schema.said(schema.COUNT, "They had deliveries that the log knows."),
    "unknown": schema.said(schema.COUNT, "The leader died, and may have delivered them just before."),
})  # fmt: skip
_SKIPPED: Final = Shape("Skipped", {
    "leased": schema.said(schema.COUNT, "They were leased when their turn came, and are free again."),
    "settled": schema.said(schema.COUNT, "They ended in another way before their turn."),
    "gone": schema.said(schema.COUNT, "They were forgotten before their turn."),
    "key_taken": schema.said(schema.COUNT, "Another message has their key now."),
})  # fmt: skip
_TOPIC: Final = {
    "type": ["string", "array"],
    "maxLength": 127,
    "items": schema.TOPIC,
    "minItems": 1,
    "maxItems": TOPICS_MAX,
    "description": "A topic, a list of topics, or `*` for all of them, with `confirm`.",
}
_PROGRESS: Final = {"type": "number", "minimum": 0, "maximum": 1}
_SHOWN: Final = Shape(
    "Operation",
    {
        "id": schema.said(schema.text(64), "The id of the operation; opaque."),
        "kind": schema.said(schema.WORD, "What it does: `cancel`, `shift`, `release`, `redrive` or `resend`."),
        "state": schema.said(schema.WORD, "`running`, `paused`, `done` or `aborted`."),
        "topic": schema.said({}, "As it was sent."),
        "from": schema.said(nullable(schema.AT), "As it was sent."),
        "to": schema.said(nullable(schema.AT), "As it was sent."),
        "tag": schema.said(nullable(schema.TAG), "As it was sent."),
        "reason": schema.said(nullable(schema.WORD), "As it was sent."),
        "by": schema.said(nullable(schema.WORD), "As it was sent, in the largest unit."),
        "to_due": schema.said(nullable(schema.AT), "As it was sent."),
        "rate": schema.said(nullable(schema.COUNT), "As it was sent."),
        "note": schema.said(schema.WORD, "As it was sent."),
        "begun": schema.said(schema.AT, "When it began; messages that come later are not changed."),
        "ended": schema.said(nullable(schema.AT), "When it ended; null while it runs."),
        "matched": schema.said(nullable(schema.COUNT), "All it changed or skipped; null while it runs."),
        "changed": schema.said(schema.COUNT, "How many it has changed."),
        "prior": schema.said({"allOf": [_COUNTED]}, "Of the changed ones: what was known of deliveries before."),
        "skipped": schema.said({"allOf": [_SKIPPED]}, "Those that it left as they are."),
        "index": schema.said(schema.COUNT, "The log entry of the last change."),
        "progress": schema.said(_PROGRESS, "How much of its work is done; 0 once aborted."),
    },
)
_GONE: Final = Shape(
    "OperationGone",
    {
        "id": schema.said(schema.text(64), "The id of the operation; opaque."),
        "state": schema.said(schema.choice((GONE,)), "It was begun by an earlier request of this key."),
    },
)
_DRY_RUN: Final = Shape("Matched", {"matched": schema.said(schema.COUNT, "How many messages match now.")})
_WISHED: Final = {
    "topic": _TOPIC,
    "from": schema.said(schema.TIME, "The messages due then or later."),
    "to": schema.said(schema.TIME, "The messages due before that."),
    "tag": schema.said(schema.TAG, "The messages that have this tag."),
    "note": schema.said(schema.text(NOTE_BYTES_MAX, 0), "For people: why."),
    "confirm": schema.said(schema.COUNT, "With topic `*`: the `matched` of a dry run."),
    "dry_run": {
        **schema.FLAG,
        "default": False,
        "description": "true: they are counted, and stay as they are.",
    },
}
_ANSWERS: Final = {
    200: Answered({"anyOf": [_SHOWN, _DRY_RUN, _GONE]}, "It has ended, or is gone. A dry run has only `matched`."),
    202: Answered(_SHOWN, "It runs, and is looked at under `Location`."),
}
_ERRORS: Final = ("unknown-topic", "over-limit", "not-supported-yet")
_MOVE_ERRORS: Final = (*_ERRORS, "in-progress", "disk-full")
_SHIFT_ERRORS: Final = (*_MOVE_ERRORS, "beyond-max-delay")
_BY: Final = {
    "type": ["string", "integer"],
    "pattern": "^[+-]?[0-9]{1,15}(ms|s|m|h|d)$",
    "description": "Of a shift: how far, with a minus for earlier. No message gets a due time before now.",
}
_TO_DUE: Final = schema.said(schema.TIME, "Of a shift: to this time, instead of `by`.")
_RATE: Final = {
    "type": "integer", "minimum": 1, "maximum": RATE_MAX,
    "description": "At most so many messages a second; not of a cancel.",
}  # fmt: skip
_REASON: Final = schema.said(
    schema.text(REASON_BYTES_MAX),
    "Of a redrive: only messages that died of it. Without it those that were given up on purpose stay dead.",
)
_ID: Final = "op-1234"
_DONE: Final = {
    "id": _ID, "kind": "cancel", "state": "done", "topic": "orders", "from": None, "to": None,
    "tag": "eu", "reason": None, "by": None, "to_due": None, "rate": None, "note": "sent twice by mistake",
    "begun": "2026-11-21T14:05:27.263Z", "ended": "2026-11-21T14:05:27.271Z", "matched": 1, "changed": 1,
    "prior": {"none": 1, "known": 0, "unknown": 0},
    "skipped": {"leased": 0, "settled": 0, "gone": 0, "key_taken": 0}, "index": 1236, "progress": 1.0,
}  # fmt: skip

_SHIFTED: Final = _DONE | {
    "kind": "shift", "state": "running", "by": "-30m", "rate": 1, "tag": None, "note": "runs",
    "ended": None, "matched": None, "changed": 0, "prior": {"none": 0, "known": 0, "unknown": 0},
}  # fmt: skip

BEGIN: Final = Operation(
    "beginOperation",
    "Begin an operation",
    _ANSWERS,
    request=sent(
        "NewOperation", {
            "kind": {**schema.choice(tuple(KIND_FIELDS)), "description": "What it does."},
            **_WISHED, "by": _BY, "to_due": _TO_DUE, "rate": _RATE, "reason": _REASON,
        },
        ("kind", "topic"),
    ),
    errors=_SHIFT_ERRORS,
    examples=(
        Example(
            "dry-run", "/v1/operations", {"matched": 1}, 200,
            {"kind": "cancel", "topic": "orders", "tag": "eu", "dry_run": True}, turn=4,
        ),
        Example(
            "cancel", "/v1/operations", _DONE, 200,
            {"kind": "cancel", "topic": "orders", "tag": "eu", "note": "sent twice by mistake"}, turn=5,
        ),
        Example(
            "shift", "/v1/operations", _SHIFTED, 202,
            {"kind": "shift", "topic": "orders", "by": "-30m", "rate": 1, "note": "runs"}, alone=False,
        ),
    ),
)  # fmt: skip
CANCEL: Final = Operation(
    "cancelMessages",
    "Cancel many messages, and wait for it",
    _ANSWERS,
    request=sent("CancelMany", _WISHED, ("topic",)),
    errors=_ERRORS,
    examples=(
        Example(
            "none-left", "/v1/messages/cancel", {"matched": 0}, 200,
            {"topic": "orders", "tag": "eu", "dry_run": True}, turn=6,
        ),
    ),
)  # fmt: skip
SHIFT: Final = Operation(
    "shiftMessages",
    "Move many messages in time, and wait for it",
    _ANSWERS,
    request=sent("ShiftMany", {**_WISHED, "by": _BY, "to_due": _TO_DUE, "rate": _RATE}, ("topic",)),
    errors=_SHIFT_ERRORS,
    examples=(
        Example(
            "none-moved", "/v1/messages/shift", {"matched": 0}, 200,
            {"topic": "orders", "tag": "eu", "by": "-30m", "dry_run": True}, turn=6,
        ),
    ),
)  # fmt: skip
REDRIVE: Final = Operation(
    "redriveMessages",
    "Make messages that were given up due now, and wait for it",
    _ANSWERS,
    request=sent("Redrive", {**_WISHED, "rate": _RATE, "reason": _REASON}, ("topic",)),
    errors=_MOVE_ERRORS,
    examples=(
        Example(
            "dry-run", "/v1/messages/redrive", {"matched": 1}, 200,
            {"topic": "payments", "tag": "eu", "dry_run": True}, turn=3,
        ),
    ),
)  # fmt: skip
LIST: Final = Operation(
    "listOperations",
    "List operations, the newest first",
    {200: Answered(page("Operations", _SHOWN), "Those that run, and those that ended in the last 7 days.")},
    parameters=(LIMIT, CURSOR),
    examples=(Example("all", "/v1/operations?limit=10", {"items": [_DONE], "next_cursor": None}, turn=6),),
)
ONE: Final = Operation(
    "showOperation",
    "Show an operation",
    {200: Answered(_SHOWN, "As it is now.", JSON)},
    errors=("unknown-operation",),
    examples=(Example("done", f"/v1/operations/{_ID}", _DONE, turn=6),),
)


def _changed(name: str, verb: str, said: str, state: str) -> Operation:
    asked = verb.lower()
    return Operation(
        name, f"{verb} an operation", {200: Answered(_SHOWN, said, JSON)},
        errors=("unknown-operation", "already-settled"),
        examples=(Example(asked, f"/v1/operations/{_ID}/{asked}", _SHIFTED | {"state": state}, alone=False),),
    )  # fmt: skip


PAUSE: Final = _changed(
    "pauseOperation", "Pause", "It rests, and its messages wait. After 24 hours it goes on.", "paused"
)
RESUME: Final = _changed("resumeOperation", "Resume", "It goes on.", "running")
ABORT: Final = _changed(
    "abortOperation", "Abort", "It has ended. What it has not changed yet stays as it is.", "aborted"
)
