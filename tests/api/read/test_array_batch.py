"""A batch in msgpack: the same messages, problems and fingerprints as the same batch in NDJSON."""

import json
from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.port.port import Limits
from api.port.problem import Problem
from api.read.array_batch import read_array_batch
from api.read.batch import PIECE_BYTES, BatchIn, read_batch
from storage.format.pieces import at_once
from tests.api.memory_queries import NOW_MS
from tests.examples import examples

LIMITS = Limits(batch_lines_max=2_000)
GOOD = {"topic": "a", "body": 1, "delay": "1s"}


def read(*elements: Any, limits: Limits = LIMITS) -> BatchIn:
    """The batch of these elements."""
    return at_once(read_array_batch(msgpack.packb(list(elements), datetime=True), NOW_MS, limits))


def problem_of(element: Any) -> tuple[str, str, str]:
    """Code, pointer and detail of a wrong element between two right ones, which are read."""
    batch = read(GOOD, element, GOOD)
    assert (len(batch.messages), batch.lines, [*batch.problems]) == (2, [1, 3], [2])
    problem = batch.problems[2]
    return problem.code, problem.errors[0].pointer if problem.errors else "", problem.detail


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
MESSAGES = st.fixed_dictionaries(
    {"topic": st.sampled_from(["a", "b", "", "x y"]), "body": VALUES},
    optional={
        "key": st.text(max_size=4),
        "delay": st.sampled_from(["1s", "2h", "nonsense", 5]),
        "tags": st.lists(st.sampled_from(["eu", "us"]), max_size=2),
        "dealy": st.just(1),
    },
)


@examples(200)
@given(st.lists(MESSAGES | VALUES, min_size=1, max_size=6))
def test_both_forms_read_the_same(elements: list[Any]) -> None:
    """The same messages with the same fingerprints, and problems of the same lines with the same code and pointers."""
    lines = b"\n".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")).encode() for each in elements)
    try:
        wanted = at_once(read_batch(lines, NOW_MS, LIMITS))
    except Problem:  # text that is no UTF-8 in either form
        return
    found = read(*elements)
    assert found.messages == wanted.messages
    assert (found.lines, [*found.problems]) == (wanted.lines, [*wanted.problems])
    for number, problem in wanted.problems.items():
        same = found.problems[number]
        assert (same.code, [each.pointer for each in same.errors]) == (
            problem.code,
            [each.pointer for each in problem.errors],
        )


def test_bin_and_timestamp_are_taken() -> None:
    """A body of bytes, with its type, and a due time."""
    due = datetime.fromtimestamp(NOW_MS / 1000 + 60, UTC)
    (message,) = read({"topic": "a", "body": b"\x00\xff", "content_type": "image/png", "deliver_at": due}).messages
    assert (message.body, message.content_type, message.due_ms) == (b"\x00\xff", "image/png", NOW_MS + 60_000)


@pytest.mark.parametrize(
    ("element", "code", "pointer", "says"),
    [
        ({**GOOD, "key": b"k"}, "invalid-field", "/key", "a value of the type bin"),
        ({"topic": "a", "body": {"x": b"1"}}, "invalid-field", "/body", "`body` may be bin"),
        ({"topic": "a", "body": [msgpack.ExtType(5, b"1")]}, "invalid-field", "/body", "a value of the type ext"),
        ({"topic": "a", "body": float("nan")}, "invalid-field", "/body", "JSON"),
        ({"topic": "a", "body": b"1", "body_base64": "AA=="}, "invalid-field", "/body_base64", "body"),
        ({"topic": "a", "body": b"x" * 300_000}, "too-large", "/body_base64", "262144"),
        ({"topic": "a", "body": b"x" * 1_100_000}, "too-large", "", "an element holds at most 1048576 bytes"),
        (b"x", "malformed-line", "", "an element is a map"),
        (7, "invalid-field", "", "object"),
        ({1: 2}, "unknown-field", "/1", "1"),
    ],
)
def test_a_wrong_element_holds_up_no_other(element: Any, code: str, pointer: str, says: str) -> None:
    """Its problem names the field and the limit."""
    found = problem_of(element)
    assert found[:2] == (code, pointer)
    assert says in found[2]


def test_deep_nesting_is_refused() -> None:
    """By the decoder, or by the limit of JSON documents."""
    body: Any = 1
    for _ in range(300):
        body = [body]
    code, _, says = problem_of({"topic": "a", "body": body})
    assert (code, "nested too deeply" in says) == ("malformed-line", True)


@pytest.mark.parametrize(
    ("data", "code", "says"),
    [
        (b"", "malformed-request", "no msgpack array"),
        (b"\x81\xa1a\x01", "malformed-request", "no msgpack array"),
        (b"\xc1", "malformed-request", "no msgpack array"),
        (b"\x92\x01", "malformed-request", "in the middle of element 2"),
        (b"\x91\xc1", "malformed-request", "element 1 is no msgpack"),
        (b"\x91" + b"\x91" * 3_000 + b"\x01", "malformed-request", "element 1 is nested too deeply"),
        (b"\x91\x01\x02\x03", "malformed-request", "2 bytes stand behind the array of 1 elements"),
        (b"\x90", "invalid-field", "no elements"),
        (b"\xdd\xff\xff\xff\xff", "too-large", "at most 2000 lines, got 4294967295"),
        (b"\x91\xdd\x00\xff\xff\xff\x01", "malformed-request", "in the middle of element 1"),
    ],
)
def test_bytes_that_are_no_batch(data: bytes, code: str, says: str) -> None:
    """The whole request is refused, and a length that is only claimed costs nothing."""
    with pytest.raises(Problem) as refused:
        at_once(read_array_batch(data, NOW_MS, LIMITS))
    assert refused.value.code == code
    assert says in refused.value.detail


def test_a_long_batch_lets_others_go_on() -> None:
    """It stops after each piece."""
    element = {**GOOD, "body": "x" * 1_000}
    pieces = read_array_batch(msgpack.packb([element] * 1_000), NOW_MS, LIMITS)
    assert sum(1 for _ in pieces) >= 1_000 * 1_000 // PIECE_BYTES - 1
