"""The changer aims at the moment from which commands come too late, wherever a node's slowness puts it."""

import asyncio
import random

import pytest

from api.port.port import CancelResult
from chaos.client.caller import Caller
from chaos.client.changer import Changer, Changes
from chaos.client.outcome import Outcome, refusal
from chaos.history.event import Answered, Cancelled
from chaos.history.history import History
from chaos.load.client import Tasks
from tests.chaos.client.scripted import ScriptedClient, virtual_history
from tests.virtual_time import passes, virtually

SLOW_MS = 150
COUNT = 300
AIM_MS = 5


@pytest.mark.parametrize(("slow_ms", "busy"), [(0, False), (SLOW_MS, False), (SLOW_MS, True)])
def test_some_commands_are_in_time_and_some_are_not(slow_ms: int, busy: bool) -> None:
    """Of a node that comes to a command so late too: by then the message has gone out. One that refuses every second
    command because it is busy says nothing of the time."""
    due_ms = {str(number): 300 + 20 * number for number in range(0, 4 * COUNT, 4)}

    async def scene() -> History:
        history, client = virtual_history(), ScriptedClient()
        begun_ms = history.now()[1]

        def change(name: str) -> Outcome[CancelResult]:
            if busy and due_ms[name] % 160 == 60:
                return refusal("busy")
            if history.now()[1] - begun_ms > due_ms[name] - slow_ms:
                return refusal("leased")
            return Outcome("ok", CancelResult(name, 0, "none"))

        client.change = change
        async with asyncio.TaskGroup() as group:
            Changer(
                Caller([client], Tasks(group), random.Random(1)),
                history,
                Changes(cancel_share=1.0, move_share=0.0, aim_ms=AIM_MS),
            )
            for name, due in due_ms.items():
                await passes((begun_ms + due - 300 - history.now()[1]) / 1000)
                history.record(
                    Answered(
                        **history.stamp(),
                        number=int(name),
                        node="n1",
                        outcome="acknowledged",
                        sent_mono_ms=history.now()[0],
                        message_id=name,
                        due_ms=begun_ms + due,
                    )
                )
        return history

    cancels = virtually(scene).of(Cancelled)
    assert len(cancels) == COUNT
    in_time = sum(event.outcome == "cancelled" for event in cancels)
    late = sum(event.detail == "leased" for event in cancels)
    assert min(in_time, late) > (25 if busy else 50), (in_time, late)
