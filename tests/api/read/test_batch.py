"""A batch: each line its result, in order, at a speed that the batch path is there for."""

import json
from typing import cast

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.contract.object import FAULTS_MAX
from api.port.loop_turn import Pieces, T
from api.port.port import Limits, ScheduleResult, Superseded
from api.port.problem import Problem
from api.port.timestamp import render_time
from api.read.batch import EXPLAINED_MAX, PIECE_BYTES, PIECE_LINES, BatchIn, read_batch, render_batch
from api.read.message import explain
from storage.format.pieces import at_once
from storage.format.schedule_status import CONFLICT, EXTENDED, FAILED, KEPT, NEW, REPLACED, REPLAYED
from tests.api.memory_queries import NOW_MS
from tests.pace import lines_run

_LIMITS = Limits(batch_lines_max=2000)
_GOOD = b'{"topic":"a","body":1,"delay":"1s"}'


def _result(statuses: list[int]) -> ScheduleResult:
    ids = np.array([b"%026d" % row for row in range(len(statuses))], "S26")
    due = np.arange(NOW_MS, NOW_MS + len(statuses), dtype=np.int64)
    problems = {row: Problem("outcome-unknown", "lost") for row, status in enumerate(statuses) if status == FAILED}
    before = Superseded("9" * 26, 3, "known", 7)
    superseded = {row: before for row, status in enumerate(statuses) if status in (REPLACED, EXTENDED)}
    return ScheduleResult(ids, due, np.array(statuses, np.uint8), problems, superseded)


def test_plain_lines() -> None:
    """All lines good: one message per line, one row per message."""
    batch = at_once(read_batch(_GOOD + b"\n" + _GOOD + b"\n", NOW_MS, _LIMITS))
    assert [message.delay_ms for message in batch.messages] == [1000, 1000]
    assert (batch.lines, batch.problems) == (None, {})
    lines = at_once(render_batch(batch, _result([NEW, NEW]))).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"line": 1, "id": "0" * 26, "due": render_time(NOW_MS)},
        {"line": 2, "id": "0" * 25 + "1", "due": render_time(NOW_MS + 1)},
    ]


@pytest.mark.parametrize(
    ("bad", "code", "pointer"),
    [
        (b"{", "malformed-line", None),
        (b'{"topic":"a","body":"\xff"}', "malformed-line", None),
        (_GOOD + b" " + _GOOD, "malformed-line", None),
        (b"[1]", "invalid-field", ""),
        (b'{"topic":"a","body":1,"dealy":1}', "unknown-field", "/dealy"),
        (b'{"topic":"a","body":1,"priority":1}', "not-supported-yet", "/priority"),
        (b'{"topic":"a","body":1,"delay":"9999d"}', "beyond-max-delay", "/delay"),
        (b'{"topic":"a","body":"' + b"x" * 300_000 + b'"}', "too-large", "/body"),
        (b'{"topic":"a"}', "invalid-field", "/body"),
    ],
)
def test_a_bad_line_has_its_own_result(bad: bytes, code: str, pointer: str | None) -> None:
    """The bad line says what is wrong with it; the lines around it go through with their own numbers."""
    batch = at_once(read_batch(b"\n".join([_GOOD, bad, _GOOD]), NOW_MS, _LIMITS))
    assert len(batch.messages) == 2
    assert batch.lines == [1, 3]
    first, second, third = [json.loads(line) for line in at_once(render_batch(batch, _result([NEW, NEW]))).splitlines()]
    assert (first["line"], first["id"]) == (1, "0" * 26)
    assert (third["line"], third["id"]) == (3, "0" * 25 + "1")
    assert second["line"] == 2
    assert second["error"]["code"] == code
    assert second["error"]["type"] == f"/problems/{code}"
    if pointer is not None:
        assert [error["pointer"] for error in second["error"]["errors"]] == [pointer]


def test_an_object_over_two_lines_is_two_bad_lines() -> None:
    """NDJSON has one object per line, also where a lenient decoder would read on, and where counts happen to agree."""
    split = _GOOD + _GOOD + b'\n{"topic":"a",\n"body":1}'
    batch = at_once(read_batch(split, NOW_MS, _LIMITS))
    assert batch.messages == []
    assert {number: problem.code for number, problem in batch.problems.items()} == dict.fromkeys(
        (1, 2, 3), "malformed-line"
    )
    assert [json.loads(line)["line"] for line in at_once(render_batch(batch, None)).splitlines()] == [1, 2, 3]


def test_blank_lines_and_carriage_returns() -> None:
    """Blank lines are passed over but counted; CRLF ends are taken."""
    batch = at_once(read_batch(b"\n" + _GOOD + b"\r\n\n  \n" + _GOOD + b"\r\n\r\n", NOW_MS, _LIMITS))
    assert batch.lines == [2, 5]
    assert [json.loads(line)["line"] for line in at_once(render_batch(batch, _result([NEW, NEW]))).splitlines()] == [
        2,
        5,
    ]


def test_opaque_bodies_and_mixed() -> None:
    """Batches of base64 bodies, and of both kinds, are read."""
    opaque = b'{"topic":"a","body_base64":"AP8="}'
    assert [m.body for m in at_once(read_batch(opaque + b"\n" + opaque, NOW_MS, _LIMITS)).messages] == [b"\x00\xff"] * 2
    mixed = at_once(read_batch(opaque + b"\n" + _GOOD, NOW_MS, _LIMITS))
    assert [m.body for m in mixed.messages] == [b"\x00\xff", b"1"]
    assert mixed.problems == {}


def test_every_kind_of_result() -> None:
    """Replayed, kept, conflicting, failed, replaced and extended rows each say so, in place."""
    batch = at_once(read_batch(b"\n".join([_GOOD] * 7), NOW_MS, _LIMITS))
    text = at_once(render_batch(batch, _result([NEW, REPLAYED, KEPT, CONFLICT, FAILED, REPLACED, EXTENDED])))
    new, replayed, kept, conflict, failed, replaced, extended = [json.loads(line) for line in text.splitlines()]
    assert set(new) == {"line", "id", "due"}
    place = {"line": 2, "id": "0" * 25 + "1", "due": render_time(NOW_MS + 1)}
    assert replayed == {**place, "outcome": "replayed", "replayed": True}
    assert (kept["outcome"], kept["kept"]) == ("kept", True)
    previous = {"id": "9" * 26, "attempts_made": 3, "prior": "known"}
    place = {"line": 6, "id": "0" * 25 + "5", "due": render_time(NOW_MS + 5)}
    assert replaced == {**place, "outcome": "replaced", "revision": 7, "previous": previous}
    assert (extended["line"], extended["outcome"], extended["previous"]) == (7, "extended", previous)
    assert (conflict["error"]["code"], conflict["error"]["id"]) == ("key-conflict", "0" * 25 + "3")
    assert conflict["error"]["status"] == 409
    assert (failed["line"], failed["error"]["code"], failed["error"]["status"]) == (5, "outcome-unknown", 504)


@pytest.mark.parametrize("data", [b"", b"\n \r\n\n"])
def test_a_batch_without_lines_is_refused(data: bytes) -> None:
    """Nothing to do is a mistake of the client."""
    with pytest.raises(Problem) as caught:
        at_once(read_batch(data, NOW_MS, _LIMITS))
    assert caught.value.code == "invalid-field"


def test_the_limit_of_lines() -> None:
    """The last allowed number of lines goes through, one more is 413 and names the limit."""
    assert len(at_once(read_batch(b"\n".join([_GOOD] * 2000), NOW_MS, _LIMITS)).messages) == 2000
    with pytest.raises(Problem, match="2000 lines, got 2001") as caught:
        at_once(read_batch(b"\n".join([_GOOD] * 2001), NOW_MS, _LIMITS))
    assert caught.value.status == 413


def _pieces(work: Pieces[T]) -> tuple[T, int]:
    """What comes of it, and in how many pieces it is done."""
    count = 1
    while True:
        try:
            next(work)
        except StopIteration as end:
            return cast(T, end.value), count
        count += 1


def test_b1_faults_are_explained_up_to_a_bound_and_in_pieces() -> None:
    """A batch in which every line has fifty wrong names held the leader for up to 29 s; so did one document of many."""
    line = b"{" + b",".join(b'"n%02d":1' % number for number in range(50)) + b"}"
    batch, pieces = _pieces(read_batch(b"\n".join([line] * 1_000), NOW_MS, _LIMITS))
    told = [len(problem.errors) for _, problem in sorted(batch.problems.items())]
    assert told == [FAULTS_MAX] * EXPLAINED_MAX + [1] * (1_000 - EXPLAINED_MAX)
    assert pieces >= 1_000 // PIECE_LINES
    _, rendered = _pieces(render_batch(batch, None))
    assert rendered >= 1_000 // PIECE_LINES
    names = b"{" + b",".join(b'"n%06d":1' % number for number in range(20_000)) + b"}"
    with pytest.raises(Problem, match="15 more, see errors; what follows was not looked at") as caught:
        explain(names, NOW_MS, _LIMITS)
    assert len(caught.value.errors) == FAULTS_MAX


def test_b9_a_valid_batch_is_read_in_pieces() -> None:
    """One of 9,900 full lines made its leader refuse it: trust ends while the loop is held."""
    line = b'{"topic":"a","body":"%s","delay":"1s"}' % (b"x" * 960)
    data = b"\n".join([line] * 2_000)
    batch, pieces = _pieces(read_batch(data, NOW_MS, _LIMITS))
    assert len(batch.messages) == 2_000
    assert pieces >= len(data) // (PIECE_BYTES + len(line))


def test_line_numbers_past_the_table() -> None:
    """With a raised limit of lines the numbers still agree."""
    limits = Limits(batch_lines_max=20_000)
    batch = at_once(read_batch(b"\n".join([_GOOD] * 10_500), NOW_MS, limits))
    lines = at_once(render_batch(batch, _result([NEW] * 10_500))).splitlines()
    assert [json.loads(line)["line"] for line in lines[9_999:]] == list(range(10_000, 10_501))


_LINES = st.lists(
    st.sampled_from(
        [
            _GOOD,
            b'{"topic":"a","body":{"k":"}\\n{"}}',
            b'{"topic":"b","body":"\xc3\xa9","tags":["x"],"key":"k"}',
            b'{"topic":"a","body_base64":"AAAA"}',
            b' {"topic":"a" , "body":[ ] } ',
            b"",
            b"{",
            b"}",
            b"nonsense",
            b'{"topic":"a b","body":1}',
            b'{"topic":"a","body":"\xff"}',
        ]
    ),
    max_size=8,
)


@given(_LINES)
def test_a_batch_reads_as_its_lines(lines: list[bytes]) -> None:
    """Whichever path read it: each line gives what it gives alone, under its own number."""
    if not b"".join(lines).strip():
        return
    whole = at_once(read_batch(b"\n".join(lines), NOW_MS, _LIMITS))
    numbers = whole.lines or list(range(1, len(whole.messages) + 1))
    found = dict(zip(numbers, whole.messages, strict=True))
    for number, line in enumerate(lines, 1):
        if not line.strip():
            assert number not in found
            assert number not in whole.problems
            continue
        alone: BatchIn = at_once(read_batch(line, NOW_MS, _LIMITS))
        if alone.messages:
            assert found[number] == alone.messages[0]
        else:
            assert whole.problems[number].shape() == alone.problems[1].shape()


def test_a_line_more_costs_fifteen_lines_to_read_and_none_to_answer() -> None:
    """A batch of 1,000 lines: each is read and validated once, and the answer is joined without a loop over them."""
    line = msgspec.json.encode({"topic": "orders", "body": "x" * 98, "delay": "30m"}) + b"\n"

    def read(count: int) -> BatchIn:
        batch: BatchIn = at_once(read_batch(line * count, NOW_MS, Limits()))
        return batch

    few, many = read(1), read(1000)
    assert lines_run(lambda: read(1000)) - lines_run(lambda: read(1)) < 25 * 999
    one, thousand = _result([NEW]), _result([NEW] * 1000)
    answered = lines_run(lambda: at_once(render_batch(many, thousand)))
    assert answered - lines_run(lambda: at_once(render_batch(few, one))) < 100
