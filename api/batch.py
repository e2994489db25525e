"""A batch: NDJSON in, NDJSON out, one result per line, at the speed of a memory copy where nothing is wrong.

Reading takes the whole batch through one typed decode when a cheap count shows that every line is one object; any
doubt (blank lines, a broken line, an unknown field somewhere) reads line by line, and a line at fault gets its problem
while the others go on. Writing fills a matrix of identical rows (numpy), 0.2 us a line; only lines with another result
are rendered one by one. Line numbers are padded with spaces inside the JSON so that all rows have one width.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from api.document import check_utf8
from api.message import JSON_MESSAGE, ODD, OPAQUE_MESSAGE, JsonMessage, OpaqueMessage, accept, explain
from api.port import FAILED, KEPT, NEW, REPLAYED, Limits, MessageIn, ScheduleResult
from api.problem import FieldFault, Problem
from api.timestamp import TIME_BLANK, TIME_TEXT, render_time, write_times


class BatchIn(msgspec.Struct, frozen=True):
    """What was read: the valid messages and the line (from 1) each stood on; for the other lines their problem.

    `lines` is None when message i stood on line i + 1, the common case.
    """

    messages: list[MessageIn]
    lines: list[int] | None
    problems: Mapping[int, Problem]


def read_batch(data: bytes, now_ms: int, limits: Limits) -> BatchIn:
    """All lines of a batch. `too-large` past the limit of lines, `invalid-field` for none; else nothing is raised."""
    data = data.rstrip()
    if not data:
        raise Problem(
            "invalid-field",
            "the batch has no lines; send one JSON object per line",
            errors=[FieldFault("", "no lines")],
        )
    count = data.count(b"\n") + 1
    if count > limits.batch_lines_max:
        raise Problem("too-large", f"a batch is at most {limits.batch_lines_max} lines, got {count}; send several")
    # A newline between "}" and "{" is never inside a JSON value, so with this count each line is exactly one object.
    if data.count(b"}\n{") == count - 1 and _is_utf8(data):
        wires = _decode_all(data)
        if wires is not None and len(wires) == count:
            return _accept_all(data, wires, now_ms, limits)
    return _read_lines(data, now_ms, limits)


def _is_utf8(data: bytes) -> bool:
    try:
        check_utf8(data)
    except Problem:
        return False
    return True


def _decode_all(data: bytes) -> list[JsonMessage] | list[OpaqueMessage] | None:
    try:
        return JSON_MESSAGE.decode_lines(data)
    except ODD:
        if b'"body_base64"' not in data:
            return None
    try:
        return OPAQUE_MESSAGE.decode_lines(data)
    except ODD:
        return None


def _accept_all(data: bytes, wires: list[JsonMessage] | list[OpaqueMessage], now_ms: int, limits: Limits) -> BatchIn:
    try:
        return BatchIn([accept(wire, now_ms, limits) for wire in wires], None, {})
    except ODD:
        return _read_lines(data, now_ms, limits)


def _read_lines(data: bytes, now_ms: int, limits: Limits) -> BatchIn:
    messages: list[MessageIn] = []
    lines: list[int] = []
    problems: dict[int, Problem] = {}
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line or line.isspace():
            continue  # NDJSON lets a reader skip blank lines; they keep their number and have no result
        try:
            messages.append(_read_line(line, now_ms, limits))
            lines.append(number)
        except Problem as problem:
            problems[number] = problem
    return BatchIn(messages, lines, problems)


def _read_line(line: bytes, now_ms: int, limits: Limits) -> MessageIn:
    if line.isascii():
        try:
            return accept(JSON_MESSAGE.decode(line), now_ms, limits)
        except ODD:
            pass
    try:
        return explain(line, now_ms, limits)
    except Problem as problem:
        if problem.code != "malformed-json":
            raise
        raise Problem("malformed-line", problem.detail) from None


_LINE_WIDTH: Final = 6
_ROW_BLANK: Final = b'{"line":' + b" " * _LINE_WIDTH + b',"id":"' + b"0" * 26 + b'","due":"' + TIME_BLANK + b'"}\n'
_ROW: Final = np.dtype(
    {
        "names": ["line", "id", "due"],
        "formats": [f"S{_LINE_WIDTH}", "S26", TIME_TEXT],
        "offsets": [8, 8 + _LINE_WIDTH + 7, 8 + _LINE_WIDTH + 7 + 26 + 9],
        "itemsize": len(_ROW_BLANK),
    }
)
_NUMBERS: Final = np.array([str(number).rjust(_LINE_WIDTH) for number in range(10_001)], f"S{_LINE_WIDTH}")


def render_batch(batch: BatchIn, result: ScheduleResult | None) -> bytes:
    """The answer's lines, in the order of the request's. `result` is None when no line was valid."""
    if result is None:
        rows: npt.NDArray[np.void] = np.empty(0, _ROW)
    else:
        rows = _plain_rows(batch, result)
        if not batch.problems and not result.status.any():
            return rows.tobytes()
    lines = {number: _problem_line(number, problem) for number, problem in batch.problems.items()}
    if result is not None:
        width = len(_ROW_BLANK)
        text = rows.tobytes()
        for row, status in enumerate(result.status.tolist()):
            number = row + 1 if batch.lines is None else batch.lines[row]
            plain = text[row * width : (row + 1) * width]
            lines[number] = plain if status == NEW else _other_line(number, row, plain, result)
    return b"".join(lines[number] for number in sorted(lines))


def _plain_rows(batch: BatchIn, result: ScheduleResult) -> npt.NDArray[np.void]:
    count = len(result.ids)
    rows = np.frombuffer(bytearray(_ROW_BLANK * count), _ROW)
    rows["line"] = _numbers(np.arange(1, count + 1) if batch.lines is None else np.array(batch.lines))
    rows["id"] = result.ids
    write_times(rows["due"], result.due_ms)
    return rows


def _numbers(lines: npt.NDArray[np.int64]) -> npt.NDArray[np.bytes_]:
    if len(lines) and lines[-1] >= len(_NUMBERS):  # only with a raised limit of lines
        return np.char.rjust(lines.astype(f"S{_LINE_WIDTH}"), _LINE_WIDTH)
    return _NUMBERS[lines]


def _other_line(number: int, row: int, plain: bytes, result: ScheduleResult) -> bytes:
    """The line of a message that was not simply scheduled."""
    status = int(result.status[row])
    if status == REPLAYED:
        return plain[:-2] + b',"replayed":true}\n'
    if status == KEPT:
        return plain[:-2] + b',"kept":true}\n'
    if status == FAILED:
        return _problem_line(number, result.problems[row])
    return _problem_line(number, key_conflict(result, row))


def key_conflict(result: ScheduleResult, row: int) -> Problem:
    """The refusal of a message whose key is held by another request."""
    holder = result.ids[row].decode()
    return Problem(
        "key-conflict",
        f"the key belongs to message {holder}, which was another request; use a new key, or on_conflict keep",
        errors=[FieldFault("/key", "held by another request")],
        id=holder,
        due=render_time(int(result.due_ms[row])),
    )


def _problem_line(number: int, problem: Problem) -> bytes:
    return msgspec.json.encode({"line": number, "error": problem.shape()}) + b"\n"
