"""The checkpointer beside a stop."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from node.checkpointer import Checkpointer
from node.config import StorageOptions
from tests.waiting import turns


def test_a_stop_waits_for_the_checkpoint_under_way() -> None:
    """Cancelled in the middle, it ends when the thread has ended and the store knows: another may begin then."""
    done: list[str] = []
    began, gate = threading.Event(), threading.Event()

    def run() -> None:
        began.set()
        gate.wait(20)
        done.append("run")

    job = SimpleNamespace(run=run, finish=lambda: done.append("finish"), catalog=SimpleNamespace(record=None))
    store = SimpleNamespace(begin_checkpoint=lambda record: job, checkpoint=None)
    machine = SimpleNamespace(applied_index=3, store=store, checkpoint_record=lambda: None)
    journal = SimpleNamespace(written_bytes=0, trim=lambda index: done.append("trim"))

    async def test() -> None:
        checkpointer = Checkpointer(
            cast(Any, machine), cast(Any, journal), StorageOptions(), monotonic=lambda: 0.0, needed_from=lambda: 0
        )
        work = asyncio.create_task(checkpointer.checkpoint())
        assert await asyncio.to_thread(began.wait, 20)
        work.cancel()
        await turns()
        assert not work.done()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert done == ["run", "finish"]

    asyncio.run(test())
