"""Every answer that is no success has one error, and every code of the server has a type."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.port.problem import RETRY_AFTER_S, TABLE, FieldFault
from api.port.problem import Problem as Sent
from hourwheel.core.errors import (
    TYPES,
    BadRequest,
    Conflict,
    Effect,
    Forbidden,
    HourwheelError,
    NotFound,
    OutcomeUnknown,
    Refused,
    Unavailable,
    error_of,
    type_of,
    unanswered,
    unreachable,
)
from hourwheel.core.problem import Field, read_problem

#: What an error of a type may have as status.
STATUSES: dict[type[HourwheelError], set[int]] = {
    BadRequest: {400, 405, 408, 413, 415, 422},
    Forbidden: {401, 403},
    NotFound: {404},
    Conflict: {409, 412, 428},
    Unavailable: {429, 503},
    OutcomeUnknown: {500, 504},
}


def test_every_code_of_the_server_has_a_type_and_no_other() -> None:
    """A code that is added to api/port/problem.py gets its row in `TYPES` with it."""
    assert set(TYPES) == set(TABLE)


@pytest.mark.parametrize("code", TABLE)
def test_a_type_fits_its_status(code: str) -> None:
    """What asks its client to come again is a failure of now; nothing else is."""
    status, _ = TABLE[code]
    assert status in STATUSES[TYPES[code]]
    assert (TYPES[code] is Unavailable) == (code in RETRY_AFTER_S)


def test_what_the_server_sends_is_read() -> None:
    """Each member, by the server's own words."""
    fault = FieldFault("/delay", "at most 3650d", parameter="delay", header="X")
    sent = Sent("beyond-max-delay", "too far", errors=[fault], holder="0A")
    document = sent.shape(term=7, request_id="r1", leader="n2")
    error = error_of(read_problem(sent.status, {"Retry-After": "3"}, json.dumps(document).encode()), "http://a:1")
    assert type(error) is BadRequest
    assert isinstance(error, Refused)
    assert (error.code, error.address, error.retry_after_s) == ("beyond-max-delay", "http://a:1", 3.0)
    assert error.fields == (Field("/delay", "at most 3650d", "delay", "X"),)
    problem = error.problem
    assert problem is not None
    assert (problem.leader, problem.term, problem.request_id) == ("n2", 7, "r1")
    assert problem.document["holder"] == "0A"
    assert str(error) == "beyond-max-delay (HTTP 422): too far"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (422, "of-a-newer-build", Refused),
        (429, "over-quota", Unavailable),
        (503, "stopped", OutcomeUnknown),
        (503, "", OutcomeUnknown),  # a proxy on the way: nobody knows what the node did
        (404, "", Refused),
        (302, "", Refused),
    ],
)
def test_an_answer_with_no_known_code(status: int, code: str, kind: type[HourwheelError]) -> None:
    """What a newer server or a proxy says is taken with care."""
    assert type_of(status, code) is kind


def test_no_answer() -> None:
    """Nothing was sent, or nobody knows; the address is named."""
    assert unreachable("http://a:1", "refused").effect is Effect.NONE
    assert unanswered("http://a:1", "reset").effect is Effect.UNKNOWN
    assert "http://a:1" in str(unreachable("http://a:1", "refused"))
    error = unanswered("http://a:1", "reset")
    assert (error.code, error.fields, error.retry_after_s) == ("", (), None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["pointer", "detail"]), inner),
)
NAMES = st.sampled_from(["code", "detail", "title", "errors", "leader", "term", "request_id"])


@given(st.dictionaries(NAMES, JSON).map(json.dumps).map(str.encode) | st.binary(), st.text())
def test_any_answer_becomes_an_error(payload: bytes, wait: str) -> None:
    """Whatever stands in it, and whatever types."""
    error = error_of(read_problem(503, {"retry-after": wait}, payload))
    assert isinstance(str(error), str)
    assert error.code == "" or type_of(503, error.code) is type(error)


@pytest.mark.parametrize(("wait", "seconds"), [("2", 2.0), (" 60 ", 60.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None)])
def test_retry_after(wait: str, seconds: Any) -> None:
    """Seconds are read, in a header of any case; a date is not."""
    assert read_problem(503, {"RETRY-AFTER": wait}, b"").retry_after_s == seconds
