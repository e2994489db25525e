"""Operations of a consumer's receipts, as the document shows them: ack, nack, extend."""

from collections.abc import Mapping
from typing import Final

from api.contract import schema
from api.contract.operation import Example, Operation, ok
from api.contract.schema import Schema
from api.contract.shape import Shape, array, sent
from api.port.port import ACK_MAX

ONE: Final = "AQAAAAD-mwdG6Il7n3MBAAMAAAAAAAEAAAABAN01mPh82aB-UH3YcOA64fQ"
TWO: Final = "AgAAAAD-mwdnYo9PxlcCAAMAAAAAAAEAAAABAH2jdbL9laEuZDe4kk_M_CQ"
_RECEIPTS: Final = schema.said(schema.listed(schema.WORD, ACK_MAX, 1), "Receipts of deliveries of this topic.")
_RESULT: Final = Shape(
    "Result",
    {
        "receipt": schema.said(schema.WORD, "The receipt."),
        "result": schema.said(
            schema.choice(("acked", "nacked", "extended", "stale", "invalid", "unknown")), "What became of it."
        ),
    },
)
_RESULTS: Final = Shape(
    "Results",
    {
        "results": schema.said(array(_RESULT), "One for each receipt, in order."),
    },
    "One for each receipt, in order.",
)


def _of(name: str, **more: Schema) -> Shape:
    members: Mapping[str, Schema] = {"receipts": _RECEIPTS, **more}
    return sent(name, members, ("receipts",))


ACK: Final = Operation(
    "ackMessages",
    "Settle messages",
    ok(_RESULTS, "What is `acked` is durable on a majority."),
    request=_of("Ack"),
    errors=("unknown-topic", "not-supported-yet", "over-limit"),
    examples=(
        Example(
            "done",
            "/v1/topics/jobs/ack",
            {"results": [{"receipt": ONE, "result": "acked"}, {"receipt": "nonsense", "result": "invalid"}]},
            200,
            {"receipts": [ONE, "nonsense"]},
            turn=1,
        ),
    ),
)
NACK: Final = Operation(
    "nackMessages",
    "Give messages back",
    ok(_RESULTS, "The messages are due again, or dead if the retry policy gives them up."),
    request=_of(
        "Nack",
        delay=schema.duration("0 to 3650d", "Due again after that; else the retry policy says when."),
        counted={
            **schema.FLAG,
            "default": True,
            "description": "false: this attempt does not count for the retry policy.",
        },
    ),
    errors=("unknown-topic", "not-supported-yet", "beyond-max-delay", "over-limit"),
    examples=(
        Example(
            "later",
            "/v1/topics/payments/nack",
            {"results": [{"receipt": TWO, "result": "nacked"}]},
            200,
            {"receipts": [TWO]},
            turn=2,
        ),
    ),
)
EXTEND: Final = Operation(
    "extendLeases",
    "Let leases end later",
    ok(_RESULTS, "The leases end at the wished time or later."),
    request=_of(
        "Extend", lease=schema.duration("1s to 12h", "How long the lease lasts from now; else the topic says.")
    ),
    errors=("unknown-topic", "not-supported-yet", "over-limit"),
    examples=(
        Example(
            "longer",
            "/v1/topics/jobs/extend",
            {"results": [{"receipt": ONE, "result": "extended"}]},
            200,
            {"receipts": [ONE], "lease": "5m"},
        ),
    ),
)
