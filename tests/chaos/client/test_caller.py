"""A call that is tried at one node after the other has one outcome."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from chaos.client.caller import AGAIN_S, Caller
from chaos.client.outcome import Outcome
from chaos.load.client import Tasks
from tests.chaos.client.scripted import ScriptedClient
from tests.virtual_time import passes, virtually

OK: Outcome[int] = Outcome("ok", 1)
REFUSED: Outcome[int] = Outcome("refused", None, "leased")
AWAY: Outcome[int] = Outcome("refused")
UNKNOWN: Outcome[int] = Outcome("unknown")


def insisted(said: Sequence[Outcome[int]], *, for_s: float = 10.0, again: bool = True) -> tuple[Outcome[int], int]:
    """The outcome of a call, and how many tries it took. `said`: the outcome of each try; the last one repeats."""

    async def scene() -> tuple[Outcome[int], int]:
        tries = 0

        async def ask(client: ScriptedClient) -> Outcome[int]:
            nonlocal tries
            tries += 1
            return said[min(tries, len(said)) - 1]

        async with asyncio.TaskGroup() as group:
            caller = Caller([ScriptedClient()], Tasks(group), random.Random(1))
            outcome = await caller.insist(ask, for_s=for_s, again=again)
        await passes(1.0)
        return outcome, tries

    return virtually(scene)


@pytest.mark.parametrize(
    ("said", "kind", "tries"),
    [
        ([OK], "ok", 1),
        ([REFUSED], "refused", 1),
        ([AWAY, AWAY, OK], "ok", 3),  # nothing was done: it is sent again
        ([UNKNOWN, OK], "ok", 2),
        ([UNKNOWN, REFUSED], "unknown", 2),  # refused because the first was done, perhaps
        ([AWAY, REFUSED], "refused", 2),
    ],
)
def test_what_is_not_done_is_sent_again_and_a_doubt_stays(said: list[Outcome[int]], kind: str, tries: int) -> None:
    """Unless the last word is that it was done."""
    outcome, made = insisted(said)
    assert (outcome.kind, made) == (kind, tries)


def test_a_call_that_may_have_been_done_is_not_sent_twice_unless_asked_to() -> None:
    """A producer without a key would make two messages."""
    assert insisted([UNKNOWN, OK], again=False) == (UNKNOWN, 1)


def test_it_ends_after_its_time() -> None:
    """With what it came to last."""
    outcome, tries = insisted([AWAY], for_s=1.0)
    assert outcome == AWAY
    assert 1.0 / (1.5 * AGAIN_S) <= tries <= 1.0 / (0.5 * AGAIN_S) + 1


def test_who_is_no_member_is_not_asked() -> None:
    """A node that is spare, or was removed, does not listen: it says nothing of the service."""

    async def scene() -> set[str]:
        clients = [ScriptedClient() for _ in range(3)]
        for number, client in enumerate(clients):
            client.node = f"n{number + 1}"
        async with asyncio.TaskGroup() as group:
            caller = Caller(clients, Tasks(group), random.Random(1), lambda node: node != "n2")
            asked = {caller.any().node for _ in range(100)}
        await passes(1.0)
        return asked

    assert virtually(scene) == {"n1", "n3"}
