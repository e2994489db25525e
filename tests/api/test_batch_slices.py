"""A large batch is scheduled in slices, and answered as one."""

import asyncio
import json
from contextlib import suppress

import numpy as np
import pytest

from api.batch import SLICE_BYTES, BatchReader, render_batch, schedule_slices
from api.port import FAILED, NEW, Limits, MessageIn, ScheduleResult
from api.problem import Problem
from storage.pieces import at_once
from tests.api.memory_port import NOW_MS
from tests.waiting import turns

_LINE = b'{"topic":"a","body":%d,"headers":{"x":"' + b"x" * 1_000 + b'"}}'
_COUNT = 3_000


class _Writer:
    """Numbers messages as they come; refuses the slices of these numbers, from 0."""

    def __init__(self, refused: tuple[int, ...] = ()) -> None:
        self.bodies: list[bytes] = []
        self.slices = 0
        self._refused = refused

    async def schedule(self, messages: list[MessageIn]) -> ScheduleResult:
        """Durable a moment later."""
        number = self.slices
        self.slices += 1
        await turns()
        if number in self._refused:
            raise Problem("no-leader", "gone")
        first = len(self.bodies)
        self.bodies += [each.body for each in messages]
        numbers = range(first, len(self.bodies))
        ids, due_ms = np.array([b"%026d" % row for row in numbers], "S26"), np.array(numbers) + NOW_MS
        status = np.full(len(messages), NEW, np.uint8)
        status[0] = FAILED
        return ScheduleResult(ids, due_ms, status, {0: Problem("outcome-unknown", "the first of each")})


def _reader(lines: list[bytes]) -> BatchReader:
    return BatchReader(b"\n".join(lines), NOW_MS, Limits())


def _lines(reader: BatchReader, result: ScheduleResult | None) -> list[dict[str, object]]:
    return [json.loads(line) for line in at_once(render_batch(reader.found(), result)).splitlines()]


def test_lines_keep_their_numbers_and_their_order() -> None:
    """Whatever slice they are in; odd ones too."""
    lines = [_LINE % number for number in range(_COUNT)]
    lines[5] = lines[2_000] = b"{"
    writer, reader = _Writer(), _reader(lines)
    told = _lines(reader, asyncio.run(schedule_slices(reader, writer.schedule)))
    assert writer.slices == -(-len(b"\n".join(lines)) // SLICE_BYTES)
    assert writer.bodies == [b"%d" % number for number in range(_COUNT) if number not in (5, 2_000)]
    assert [line["line"] for line in told] == list(range(1, _COUNT + 1))
    ids = [str(line["id"]) for line in told if "id" in line]
    assert ids == sorted(ids)
    assert _COUNT - len(ids) == 2 + writer.slices


def test_the_refusal_of_the_first_slice_is_that_of_the_batch() -> None:
    """Nothing of it was done, nor is."""
    writer = _Writer(refused=(0,))
    with pytest.raises(Problem, match="gone"):
        asyncio.run(schedule_slices(_reader([_LINE % number for number in range(_COUNT)]), writer.schedule))
    assert writer.slices == 1


def test_the_refusal_of_a_later_slice_is_that_of_its_lines() -> None:
    """The others are as they were answered."""
    writer, reader = _Writer(refused=(1,)), _reader([_LINE % number for number in range(_COUNT)])
    told = _lines(reader, asyncio.run(schedule_slices(reader, writer.schedule)))
    codes = [line["error"]["code"] if "error" in line else "" for line in told]  # type: ignore[index]
    refused = [number for number, code in enumerate(codes) if code == "no-leader"]
    assert refused == list(range(refused[0], refused[-1] + 1))
    assert len(refused) == _COUNT - len(writer.bodies) > 0
    assert codes.count("outcome-unknown") == writer.slices - 1


def test_slices_without_a_valid_line() -> None:
    """None of them is scheduled."""
    odd = b'{"topic":"a","x":"' + b"x" * 3_000 + b'"}'
    for lines, slices in ([odd] * 500, 0), ([odd] * 500 + [_LINE % 1], 1), ([_LINE % 1] + [odd] * 500, 1):
        writer, reader = _Writer(), _reader(lines)
        told = _lines(reader, asyncio.run(schedule_slices(reader, writer.schedule)))
        assert (len(told), writer.slices) == (len(lines), slices)


def test_a_client_that_goes_away_is_not_read_on_for() -> None:
    """Nor does the slice under way hold anything longer."""

    async def story() -> None:
        ends = asyncio.Event()

        async def schedule(messages: list[MessageIn]) -> ScheduleResult:
            try:
                await asyncio.Event().wait()
            finally:
                ends.set()
            raise AssertionError("nothing ends it")

        lines = [_LINE % number for number in range(_COUNT)]
        batch = asyncio.ensure_future(schedule_slices(_reader(lines), schedule))
        await turns(100)
        batch.cancel()
        with suppress(asyncio.CancelledError):
            await batch
        await ends.wait()

    asyncio.run(story())
