"""The table of errors: complete, and the one source of every status."""

import pytest

from api.port.problem import RETRY_AFTER_S, TABLE, FieldFault, Problem


def test_every_code_of_the_contract_is_there() -> None:
    """API.md's table, row by row."""
    contract = {
        400: "malformed-json malformed-line",
        401: "unauthenticated",
        403: "forbidden",
        404: "unknown-message unknown-topic unknown-schedule unknown-node unknown-route",
        405: "method-not-allowed",
        409: "leased already-settled key-conflict not-empty change-in-progress not-caught-up quorum-loss",
        412: "revision-mismatch",
        428: "revision-required",
        413: "too-large",
        415: "unsupported-media-type",
        422: "invalid-field unknown-field beyond-max-delay not-supported-yet",
        429: "over-limit",
        500: "internal",
        503: "no-leader draining disk-full backup-failed",
        504: "outcome-unknown",
    }
    for status, codes in contract.items():
        for code in codes.split():
            assert TABLE[code][0] == status


def test_what_can_be_tried_again_says_when() -> None:
    """503 and 429 carry Retry-After, nothing else does by itself."""
    for code, (status, _) in TABLE.items():
        assert (Problem(code, "d").retry_after_s is not None) == (status in (429, 503)), code
    assert Problem("no-leader", "d", retry_after_s=9).retry_after_s == 9
    assert set(RETRY_AFTER_S) <= set(TABLE)


def test_shape_of_a_problem() -> None:
    """The members of the document, with the extras of the raiser and of the server."""
    problem = Problem("leased", "a consumer has it", errors=[FieldFault("/a", "b")], attempt=2)
    assert problem.shape(term=7) == {
        "type": "/problems/leased",
        "title": "A delivery of the message has a lease that runs",
        "status": 409,
        "code": "leased",
        "detail": "a consumer has it",
        "errors": [{"pointer": "/a", "detail": "b"}],
        "term": 7,
        "attempt": 2,
    }


def test_a_fault_outside_the_body_says_where() -> None:
    """A parameter or header is named; the pointer stays a string."""
    assert FieldFault("", "d", parameter="atomic").shape() == {"pointer": "", "detail": "d", "parameter": "atomic"}
    assert FieldFault("", "d", header="If-Match").shape() == {"pointer": "", "detail": "d", "header": "If-Match"}


def test_a_code_outside_the_table_cannot_be_raised() -> None:
    """A misspelt code fails where it is raised."""
    with pytest.raises(KeyError):
        Problem("no-leadr", "d")
