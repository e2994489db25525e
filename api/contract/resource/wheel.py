"""The operation that shows an hour of the wheel, as the document shows it: GET /v1/wheel."""

from typing import Final

from api.contract import schema
from api.contract.operation import Example, Operation, Parameter, ok
from api.contract.resource.count import TOPIC
from api.contract.shape import Shape, array

_HOUR: Final = Parameter("hour", schema.TIME, "Any time within the hour; if it is left out, the present hour.")
_SECOND: Final = Shape(
    "WheelSecond",
    {
        "second": schema.said(schema.AT, "Where the second begins."),
        "open": schema.said(schema.COUNT, "How many messages of it wait or are leased."),
        "units": schema.said(schema.COUNT, "How many entries its chain has, those that ended or moved away too."),
    },
)
WHEEL: Final = Operation(
    "showWheel",
    "Show an hour of the wheel",
    ok(
        Shape(
            "Wheel",
            {
                "hour": schema.said(schema.AT, "Where the hour begins."),
                "tick": schema.said(schema.AT, "The second that the leader dispatches."),
                "seconds": schema.said(array(_SECOND), "The seconds that have entries, in order."),
            },
        ),
        "The hour as of one moment.",
    ),
    parameters=(_HOUR, TOPIC),
    errors=("unknown-topic", "over-limit"),
    examples=(
        Example(
            "hour",
            "/v1/wheel?hour=2026-11-20T16:05:00Z&topic=orders",
            {"hour": "2026-11-20T16:00:00.000Z", "tick": "2026-11-21T14:05:27.000Z", "seconds": []},
        ),
    ),
)
