"""A small part of `make fuzz-frames`, the same in every run."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from chaos.live.fuzz_frames import fuzz
from chaos.plan.draw_frames import KINDS, frame
from replication.wire.frame import HEADER, FrameRefused, decode_message


def test_frames_of_every_kind_move_nothing(tmp_path: Path) -> None:
    """3,000 of them against three real nodes: no end, no term, no flood of lines, no memory."""
    assert asyncio.run(fuzz(tmp_path, seed=7, frames=3_000)) == []


def test_the_draw_has_every_kind_and_many_that_are_right() -> None:
    """Enough frames are well formed for the attack to be more than noise at the decoder."""
    chance, right = random.Random(1), set()
    for _ in range(4_000):
        data = frame(chance)
        if len(data) >= HEADER.size:
            size, meta, crc = HEADER.unpack_from(data)
            if size == len(data):
                body = HEADER.size + meta
                try:
                    right.add(decode_message(data[HEADER.size : body], memoryview(data)[body:], crc)["type"])
                except FrameRefused:
                    continue
    assert right == {name for name, _number, _fields in KINDS}
