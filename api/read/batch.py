"""A batch: NDJSON in, NDJSON out, one result per line, as fast as a memory copy if no line is at fault.

Reading takes 64 KiB through one typed decode if a cheap count shows that every line there is one object. Blank lines, a
broken line or an unknown field make the reader take those 64 KiB line by line. A line at fault gets its problem, and
the others go on. Both ways stop between pieces, so other tasks get the loop (`api.port.loop_turn`).

Writing fills a matrix of identical rows (numpy), 0.2 us a line. Only lines with another result are rendered one by one.
Line numbers are padded with spaces inside the JSON, so all rows have one width.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from api.contract.fields import MESSAGE
from api.contract.object import FAULTS_MAX
from api.port.loop_turn import Pieces
from api.port.port import Limits, MessageIn, ScheduleResult, Superseded
from api.port.problem import FieldFault, Problem
from api.port.timestamp import TIME_BLANK, TIME_TEXT, render_time, write_times
from api.port.traceback import let_go
from api.read.document import check_utf8
from api.read.message import ODD, accept, explain
from storage.format.schedule_status import FAILED, KEPT, NEW, OUTCOMES, REPLAYED

#: Bytes, or lines that are read or rendered one by one, before others have the loop.
PIECE_BYTES: Final = 64 * 1024
PIECE_LINES: Final = 16
_NEWLINE, _OPENS, _CLOSES = b"\n{}"
#: In this many lines all faults are explained. In later lines only the first is.
EXPLAINED_MAX: Final = 100


class BatchIn(msgspec.Struct, frozen=True):
    """A batch as it was read.

    - `lines`: the line numbers of the messages, from 1. None: message i stood on line i + 1, the common case.
    - `problems`: the problems of the other lines, by line number.
    """

    messages: list[MessageIn]
    lines: list[int] | None
    problems: Mapping[int, Problem]


def read_batch(data: bytes, now_ms: int, limits: Limits) -> Pieces[BatchIn]:
    """Read all lines of a batch, a piece at a time. The result has a problem for each line at fault. Raises `too-large`
    for too many lines, and `invalid-field` for a batch without lines."""
    data = data.rstrip()
    if not data:
        raise Problem(
            "invalid-field",
            "the batch has no lines; send one JSON object per line",
            errors=[FieldFault("", "no lines")],
        )
    most = limits.batch_lines_max
    reader = BatchReader(now_ms, limits)
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + PIECE_BYTES)
        end = len(data) if end < 0 else end
        yield from reader.read(data[start:end])
        if reader.lines > most:
            count = data.count(b"\n") + 1
            raise Problem("too-large", f"a batch is at most {most} lines, got {count}; send several")
        yield
        start = end + 1
    return reader.found()


class BatchReader:
    """Reads the pieces of a batch in order. A piece has whole lines. `found` gives the result after the last piece."""

    def __init__(self, now_ms: int, limits: Limits) -> None:
        self._now_ms = now_ms
        self._limits = limits
        self._messages: list[MessageIn] = []
        self._lines: list[int] | None = None  # the line numbers, once some line has no message
        self._problems: dict[int, Problem] = {}
        self._next = 1  # number of the next line

    @property
    def lines(self) -> int:
        """The number of lines read."""
        return self._next - 1

    def read(self, piece: bytes) -> Pieces[None]:
        """Read the lines of one piece."""
        first, (count, are_objects) = self._next, _look_at(piece)
        self._next += count
        if are_objects and _is_utf8(piece):
            messages = self._accept_all(piece, count)
            if messages is not None:
                self._messages += messages
                if self._lines is not None:
                    self._lines += range(first, self._next)
                return
        if self._lines is None:
            self._lines = list(range(1, first))
        for number, line in enumerate(piece.split(b"\n"), first):
            if not line or line.isspace():
                continue  # NDJSON lets a reader skip blank lines; they keep their number and have no result
            try:
                self._messages.append(self._read_line(line))
                self._lines.append(number)
            except Problem as problem:
                let_go(problem)
                problem.__context__ = None  # it holds 20 KB a line
                self._problems[number] = problem
            if number % PIECE_LINES == 0:
                yield

    def read_lines(self, lines: list[bytes]) -> Pieces[None]:
        """Read a piece of these lines, if there are any."""
        if lines:
            yield from self.read(b"\n".join(lines))

    def refuse(self, problem: Problem) -> None:
        """Note that the next line cannot be read, for this reason."""
        if self._lines is None:
            self._lines = list(range(1, self._next))
        self._problems[self._next] = problem
        self._next += 1

    def found(self) -> BatchIn:
        """Return the whole batch, once all pieces are read."""
        as_they_stood = len(self._messages) == self.lines
        return BatchIn(self._messages, None if as_they_stood else self._lines, self._problems)

    def _accept_all(self, piece: bytes, count: int) -> list[MessageIn] | None:
        """Return the messages of a piece in which nothing is odd. None otherwise."""
        wires = _decode_all(piece)
        if wires is None or len(wires) != count:
            return None
        try:
            return [accept(wire, self._now_ms, self._limits) for wire in wires]
        except ODD:
            return None

    def _read_line(self, line: bytes) -> MessageIn:
        most = self._limits.request_bytes_max
        if len(line) > most:
            raise Problem("too-large", f"a line holds at most {most} bytes, got {len(line)}")
        if _is_utf8(line):
            wires = _decode_all(line)
            if wires is not None and len(wires) == 1:
                with suppress(*ODD):
                    return accept(wires[0], self._now_ms, self._limits)
        faults_max = FAULTS_MAX if len(self._problems) < EXPLAINED_MAX else 1
        try:
            return explain(line, self._now_ms, self._limits, faults_max)
        except Problem as problem:
            if problem.code != "malformed-json":
                raise
            raise Problem("malformed-line", problem.detail) from None


def _look_at(piece: bytes) -> tuple[int, bool]:
    """Return the number of lines in the piece, and true if each line end stands between `}` and `{`.

    Then a decoder that finds as many values as there are lines has found one on each line. That holds because such a
    line end is never inside a JSON value. numpy takes a third of the time of counting in bytes.
    """
    text = np.frombuffer(piece, np.uint8)
    ends = (text == _NEWLINE).nonzero()[0]
    if piece[:1] == b"\n" or piece[-1:] == b"\n":
        return len(ends) + 1, False
    return len(ends) + 1, bool((text[ends - 1] == _CLOSES).all() and (text[ends + 1] == _OPENS).all())


def _is_utf8(data: bytes) -> bool:
    try:
        check_utf8(data)
    except Problem:
        return False
    return True


def _decode_all(data: bytes) -> list[Any] | None:
    try:
        return MESSAGE.json.decode_lines(data)
    except ODD:
        if b'"body_base64"' not in data:
            return None
    try:
        return MESSAGE.opaque.decode_lines(data)
    except ODD:
        return None


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


def render_batch(batch: BatchIn, result: ScheduleResult | None) -> Pieces[bytes]:
    """Render the answer's lines, in the order of the request's. `result` is None if no line was valid."""
    if result is None:
        rows: npt.NDArray[np.void] = np.empty(0, _ROW)
    else:
        rows = _plain_rows(batch, result)
        if not batch.problems and not result.status.any():
            return rows.tobytes()
    lines: dict[int, bytes] = {}
    for number, problem in batch.problems.items():
        lines[number] = _problem_line(number, problem)
        if number % PIECE_LINES == 0:
            yield
    if result is not None:
        width = len(_ROW_BLANK)
        text = rows.tobytes()
        for row, status in enumerate(result.status.tolist()):
            number = row + 1 if batch.lines is None else batch.lines[row]
            plain = text[row * width : (row + 1) * width]
            lines[number] = plain if status == NEW else _other_line(number, row, plain, result)
            if row % PIECE_LINES == 0:
                yield
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
    """Return the line of a message with another result than new: a replay, a kept key, a conflict or a failure. `plain`
    is the line that a new message would have in its place."""
    status = int(result.status[row])
    if (superseded := result.superseded.get(row)) is not None:
        also = {"outcome": OUTCOMES[status], "revision": superseded.revision, "previous": show_previous(superseded)}
        return plain[:-2] + b"," + msgspec.json.encode(also)[1:] + b"\n"
    if status == REPLAYED:
        return plain[:-2] + b',"outcome":"replayed","replayed":true}\n'
    if status == KEPT:
        return plain[:-2] + b',"outcome":"kept","kept":true}\n'
    if status == FAILED:
        return _problem_line(number, result.problems[row])
    return _problem_line(number, key_conflict(result.ids[row].decode(), int(result.due_ms[row])))


def show_previous(superseded: Superseded) -> dict[str, Any]:
    """Return what an answer says of the message that had the key."""
    return {"id": superseded.id, "attempts_made": superseded.attempts_made, "prior": superseded.prior}


def key_conflict(holder: str, due_ms: int) -> Problem:
    """Return the refusal of a message whose key belongs to another request. `holder` is the id of that request's
    message, due at `due_ms`."""
    return Problem(
        "key-conflict",
        f"the key belongs to message {holder}, which was another request; use a new key, or another on_conflict",
        errors=[FieldFault("/key", "held by another request")],
        id=holder,
        due=render_time(due_ms),
    )


def _problem_line(number: int, problem: Problem) -> bytes:
    return msgspec.json.encode({"line": number, "error": problem.shape()}) + b"\n"
