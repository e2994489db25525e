"""An atomic batch: all its lines are scheduled, or none. Each line has a key, so that the batch may be sent again."""

from collections.abc import Iterator
from typing import Final

from api.port.port import MessageIn, ScheduleResult
from api.port.problem import FieldFault, Problem
from api.read.batch import BatchIn, key_conflict
from storage.format.schedule_status import CHANGING, CONFLICT, FAILED

ATOMIC_BYTES_MAX: Final = 4 * 1024 * 1024
#: So many lines may replace or extend the holders of their keys. Each costs as much as a move.
CHANGING_MAX: Final = 1_000
#: So many lines at fault are named.
NAMED_MAX: Final = 100


def check_atomic(batch: BatchIn) -> None:
    """Raise a refusal that names the lines at fault. Each line must be a message with a key that no other line has. At
    most CHANGING_MAX may change the holders of their keys."""
    faults = dict(batch.problems)
    changing = 0
    first: dict[tuple[str, str], int] = {}
    for line, message in _lines(batch):
        if message.key is None:
            faults[line] = _fault("/key", "a line of an atomic batch has a key")
            continue
        if (other := first.setdefault((message.topic, message.key), line)) != line:
            faults[line] = _fault("/key", f"line {other} has this key too")
        changing += message.on_conflict in CHANGING
        if message.on_conflict in CHANGING and changing > CHANGING_MAX:
            said = f"an atomic batch has at most {CHANGING_MAX} lines that replace or extend; this is number {changing}"
            faults.setdefault(line, _fault("/on_conflict", said))
    _raise(faults)


def check_all_done(batch: BatchIn, result: ScheduleResult) -> None:
    """Raise a refusal that names the lines for which nothing was scheduled."""
    faults = {}
    for row, (line, _) in enumerate(_lines(batch)):
        if result.status[row] == CONFLICT:
            faults[line] = key_conflict(result.ids[row].decode(), int(result.due_ms[row]))
        elif result.status[row] == FAILED and row in result.problems:
            faults[line] = result.problems[row]
    _raise(faults)


def _lines(batch: BatchIn) -> Iterator[tuple[int, MessageIn]]:
    return zip(batch.lines or range(1, len(batch.messages) + 1), batch.messages, strict=True)


def _fault(pointer: str, detail: str) -> Problem:
    return Problem("invalid-field", detail, errors=[FieldFault(pointer, detail)])


def _raise(faults: dict[int, Problem]) -> None:
    if not faults:
        return
    errors = []
    for line, problem in sorted(faults.items())[:NAMED_MAX]:
        pointer = problem.errors[0].pointer if problem.errors else ""
        errors.append(FieldFault(pointer, problem.detail, line=line, code=problem.code))
    detail = f"{len(faults)} of the lines cannot be scheduled, so none was; the first is line {errors[0].line}"
    raise Problem("invalid-field", detail, errors=errors)
