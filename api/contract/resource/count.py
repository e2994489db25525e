"""Operations that count messages, as the document shows them: /v1/messages/count and /v1/messages/histogram."""

from typing import Final

from api.contract import schema
from api.contract.operation import Example, Operation, Parameter, ok
from api.contract.shape import Shape, array
from api.port.queries import OPEN_STATES

TOPIC: Final = Parameter("topic", schema.TOPIC, "Of one topic.")
TAG: Final = Parameter("tag", schema.TAG, "Those that have this tag.")
WINDOW: Final = (
    Parameter("from", schema.TIME, "Due then or later."),
    Parameter("to", schema.TIME, "Due before that."),
)
_STATES: Final = Parameter(
    "state",
    {**schema.WORD, "default": ",".join(OPEN_STATES)},
    "One state or several, with commas between.",
)
_STEP: Final = Parameter("step", {**schema.DURATION, "default": "1m"}, "How long a bucket is.")
_WHICH: Final = (TOPIC, *WINDOW, TAG, _STATES)

COUNT: Final = Operation(
    "countMessages",
    "Count messages",
    ok(Shape("Count", {"count": schema.COUNT}), "So many as of now, each hour as of one moment."),
    parameters=_WHICH,
    errors=("unknown-topic", "over-limit"),
    examples=(Example("open", "/v1/messages/count?topic=orders&state=scheduled,cancelled", {"count": 3}),),
)
_BUCKET: Final = Shape("Bucket", {"from": schema.AT, "count": schema.COUNT})
HISTOGRAM: Final = Operation(
    "countMessagesByDueTime",
    "Count messages by due time",
    ok(Shape("Histogram", {"buckets": array(_BUCKET)}), "Buckets one behind the other, empty ones too."),
    parameters=(*_WHICH, _STEP),
    errors=("unknown-topic", "over-limit"),
    examples=(
        Example(
            "tagged",
            "/v1/messages/histogram?topic=orders&tag=vip&step=15m&state=cancelled",
            {"buckets": [{"from": "2026-11-21T16:00:00.000Z", "count": 1}]},
        ),
    ),
)
