"""A batch: NDJSON in, NDJSON out, one result per line, at the speed of a memory copy where nothing is wrong.

Reading takes 64 KiB through one typed decode when a cheap count shows that every line there is one object; any doubt
(blank lines, a broken line, an unknown field somewhere) reads them line by line, and a line at fault gets its problem
while the others go on. Both ways stop between pieces, for whoever waits for the loop (`api.loop_turn`). A large batch
is read and scheduled in slices: parsed, its lines hold six times their bytes. Writing the answer fills a matrix of
identical rows (numpy), 0.2 us a line; only lines with another result are rendered one by one. Line numbers are padded
with spaces inside the JSON so that all rows have one width.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from api.document import FAULTS_MAX, check_utf8
from api.loop_turn import Pieces, in_turns
from api.message import JSON_MESSAGE, ODD, OPAQUE_MESSAGE, JsonMessage, OpaqueMessage, accept, explain
from api.port import FAILED, KEPT, NEW, REPLAYED, Limits, MessageIn, ScheduleResult
from api.problem import FieldFault, Problem
from api.timestamp import TIME_BLANK, TIME_TEXT, render_time, write_times
from api.traceback import let_go

#: So much is read, or so many lines that are odd, before others have the loop.
PIECE_BYTES: Final = 64 * 1024
PIECE_LINES: Final = 16
#: So much is read before it is scheduled, while what was read before is written.
SLICE_BYTES: Final = 1024 * 1024
Schedule = Callable[[list[MessageIn]], Awaitable[ScheduleResult]]
#: Of so many lines all faults are explained; of those behind them the first.
EXPLAINED_MAX: Final = 100


class BatchIn(msgspec.Struct, frozen=True):
    """What was read: the line (from 1) on which each valid message stood; for the other lines their problem.

    `lines` is None when message i stood on line i + 1, the common case.
    """

    lines: list[int] | None
    problems: Mapping[int, Problem]


class BatchReader:
    """Reads a batch, so much at a time, whole lines each, in order. `too-large` past the limit of lines,
    `invalid-field` for none.

    Invariant: `_at` is where the next line begins, `_next` its number; `_count` messages stood before it."""

    def __init__(self, data: bytes, now_ms: int, limits: Limits) -> None:
        self._data = data.rstrip()
        if not self._data:
            raise Problem(
                "invalid-field",
                "the batch has no lines; send one JSON object per line",
                errors=[FieldFault("", "no lines")],
            )
        count = self._data.count(b"\n") + 1
        if count > limits.batch_lines_max:
            raise Problem("too-large", f"a batch is at most {limits.batch_lines_max} lines, got {count}; send several")
        self._now_ms = now_ms
        self._limits = limits
        self._lines: list[int] | None = None  # of the messages, once not all stand as they came
        self._problems: dict[int, Problem] = {}
        self._at, self._next, self._count = 0, 1, 0

    def more(self) -> bool:
        """Whether there are lines that were not read."""
        return self._at < len(self._data)

    def read(self, most: int = SLICE_BYTES) -> Pieces[list[MessageIn]]:
        """The valid messages of the lines in so many bytes, a piece at a time. Raises nothing."""
        messages: list[MessageIn] = []
        until = self._at + most
        while self._at < min(until, len(self._data)):
            end = self._data.find(b"\n", self._at + PIECE_BYTES)
            end = len(self._data) if end < 0 else end
            yield from self._read_piece(self._data[self._at : end], messages)
            self._at = end + 1
            yield
        return messages

    def found(self) -> BatchIn:
        """Of all that was read."""
        as_they_stood = self._count == self._next - 1
        return BatchIn(None if as_they_stood else self._lines, self._problems)

    def _read_piece(self, piece: bytes, messages: list[MessageIn]) -> Pieces[None]:
        first, count = self._next, piece.count(b"\n") + 1
        self._next += count
        # A newline between "}" and "{" is never inside a JSON value: with this count each line is exactly one object.
        if piece.count(b"}\n{") == count - 1 and _is_utf8(piece):
            accepted = self._accept_all(piece, count)
            if accepted is not None:
                messages += accepted
                self._count += count
                if self._lines is not None:
                    self._lines += range(first, self._next)
                return
        if self._lines is None:
            self._lines = list(range(1, first))
        for number, line in enumerate(piece.split(b"\n"), first):
            if not line or line.isspace():
                continue  # NDJSON lets a reader skip blank lines; they keep their number and have no result
            try:
                messages.append(self._read_line(line))
                self._count += 1
                self._lines.append(number)
            except Problem as problem:
                let_go(problem)
                problem.__context__ = None  # what it holds is 20 KB a line
                self._problems[number] = problem
            if number % PIECE_LINES == 0:
                yield

    def _accept_all(self, piece: bytes, count: int) -> list[MessageIn] | None:
        """The messages of a piece in which nothing is odd."""
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


async def schedule_slices(reader: BatchReader, schedule: Schedule) -> ScheduleResult | None:
    """Schedule all that is read, in order: a slice is read while the one before it is written. None where no line is
    valid. A refusal of the first is raised, and nothing was done; one of those behind it is a problem of their lines.
    """
    results: list[ScheduleResult] = []
    messages = await in_turns(reader.read())
    if not reader.more():
        return await schedule(messages) if messages else None
    writing: asyncio.Task[ScheduleResult] | None = None
    try:
        while messages or reader.more():
            if messages:
                writing = asyncio.ensure_future(_write(schedule, messages, first=not results))
            messages = await in_turns(reader.read()) if reader.more() else []
            if writing is not None:
                results.append(await writing)
                writing = None
    finally:
        if writing is not None:
            writing.cancel()
    return _join(results) if results else None


async def _write(schedule: Schedule, messages: list[MessageIn], *, first: bool) -> ScheduleResult:
    try:
        return await schedule(messages)
    except Problem as refused:
        if first:
            raise
        rows = len(messages)
        status = np.full(rows, FAILED, np.uint8)
        return ScheduleResult(
            np.zeros(rows, "S26"), np.zeros(rows, np.int64), status, dict.fromkeys(range(rows), refused)
        )


def _join(results: list[ScheduleResult]) -> ScheduleResult:
    problems: dict[int, Problem] = {}
    at = 0
    for each in results:
        problems |= {at + row: problem for row, problem in each.problems.items()}
        at += len(each.ids)
    ids, due_ms, status = (
        np.concatenate([getattr(each, name) for each in results]) for name in ("ids", "due_ms", "status")
    )
    return ScheduleResult(ids, due_ms, status, problems)


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
    """The answer's lines, in the order of the request's. `result` is None when no line was valid."""
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
