"""Asks GET and the ledger of real nodes about messages at the end of a run."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from chaos.client.account import Accounts
from chaos.history.history import History
from chaos.load.client import Tasks, caller_of, session
from cli.local.local_nodes import LocalNode

#: The number of messages to ask about, AT_ONCE at a time.
SAMPLE: Final = 1_000
AT_ONCE: Final = 8
REQUEST_S: Final = 20.0


async def take_account(nodes: Sequence[LocalNode], history: History, seed: int, count: int = SAMPLE) -> None:
    """Ask GET and the ledger about `count` of the messages that were answered 201, drawn by `seed`. Ask for the
    ledger's sums too. The answers go into `history`."""
    known = list(history.acknowledged().values())
    async with session(REQUEST_S) as http, asyncio.TaskGroup() as group:
        accounts = Accounts(caller_of(nodes, http, Tasks(group), f"{seed}/account"), history)
        await accounts.sum_up()
        accounts.begin(random.Random(seed).sample(known, min(count, len(known))), AT_ONCE)
