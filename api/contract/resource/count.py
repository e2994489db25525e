"""Operations that count messages, as the document shows them: /v1/messages/count and /v1/messages/histogram."""

from typing import Final

from api.contract import schema
from api.contract.operation import Example, Operation, Parameter, ok
from api.contract.shape import Shape, array
from api.port.queries import OPEN_STATES

TOPIC: Final = Parameter("topic", schema.TOPIC, "The messages of this topic; of all topics, if it is left out.")
TAG: Final = Parameter("tag", schema.TAG, "The messages that have this tag.")
WINDOW: Final = (
    Parameter("from", schema.TIME, "Due then or later."),
    Parameter("to", schema.TIME, "Due before that."),
)
_STATES: Final = Parameter(
    "state",
    {**schema.WORD, "default": ",".join(OPEN_STATES)},
    "One state, or several with commas between.",
)
_STEP: Final = Parameter(
    "step",
    {**schema.DURATION, "x-bound": "1ms to 3650d"},
    "How long a bucket is. If it is left out, a step is chosen by which there are at most 60.",
)
WHICH: Final = (TOPIC, *WINDOW, TAG, _STATES)
"""The parameters that choose messages."""

SETTLING: Final = schema.said(
    schema.COUNT, "How many of these messages a running cancel has cancelled already, and has not reached yet."
)

COUNT: Final = Operation(
    "countMessages",
    "Count messages",
    ok(
        Shape(
            "Count",
            {"count": schema.said(schema.COUNT, "How many messages there are."), "settling": SETTLING},
            optional=("settling",),
        ),
        "Each hour as of one moment.",
    ),
    parameters=WHICH,
    errors=("unknown-topic", "over-limit"),
    examples=(Example("open", "/v1/messages/count?topic=orders&state=scheduled,cancelled", {"count": 3}),),
)
_BUCKET: Final = Shape(
    "Bucket",
    {
        "from": schema.said(schema.AT, "Where the bucket begins; the next one begins a step later."),
        "count": schema.said(schema.COUNT, "How many messages are due in it."),
    },
)
HISTOGRAM: Final = Operation(
    "countMessagesByDueTime",
    "Count messages by due time",
    ok(
        Shape(
            "Histogram",
            {
                "step": schema.said(schema.DURATION, "How long a bucket is."),
                "buckets": schema.said(array(_BUCKET), "In order of time, without a hole."),
                "settling": SETTLING,
            },
            optional=("settling",),
        ),
        "Buckets one behind the other, empty ones too.",
    ),
    parameters=(*WHICH, _STEP),
    errors=("unknown-topic", "over-limit"),
    examples=(
        Example(
            "tagged",
            "/v1/messages/histogram?topic=orders&tag=vip&step=15m&state=cancelled",
            {"step": "15m", "buckets": [{"from": "2026-11-21T16:00:00.000Z", "count": 1}]},
        ),
    ),
)
