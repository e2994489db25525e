"""What GET and the ledger say of messages, asked of real nodes and written down as it came."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterable, Sequence
from typing import Any, Final

import aiohttp

from api.port.ledger import LedgerSight
from api.port.timestamp import parse_time
from chaos.cluster.local_nodes import LocalNode
from chaos.history.event import Accounted, Answered, Looked, Summed
from chaos.history.history import History

#: So many messages are asked about at the end of a run, a few at a time, each of one node after the other.
SAMPLE: Final = 1_000
#: Long before any run.
EVER: Final = "2020-01-01T00:00:00Z"
AT_ONCE: Final = 8
TRIES: Final = 10
AGAIN_S: Final = 0.3
REQUEST_S: Final = 20.0
#: What the ledger says of a message some of whose records are gone.
OUTSIDE: Final = "outside_window"
FORGOTTEN: Final = frozenset({OUTSIDE, "records_missing"})


def tells_all(sight: LedgerSight, flags: Iterable[str]) -> bool:
    """Whether the ledger lacked nothing of what it tells of."""
    return sight.complete and not FORGOTTEN.intersection(flags)


async def take_account(nodes: Sequence[LocalNode], history: History, seed: int, count: int = SAMPLE) -> None:
    """Ask for `count` of the acknowledged messages, drawn by `seed`."""
    known = list(history.acknowledged().values())
    left = iter(random.Random(seed).sample(known, min(count, len(known))))
    turns = itertools.cycle(nodes)
    timeout = aiohttp.ClientTimeout(total=REQUEST_S)

    async def ask(http: aiohttp.ClientSession) -> None:
        for message in left:
            for _ in range(TRIES):
                if await look(http, next(turns), message, history, ledger=True):
                    break
                await asyncio.sleep(AGAIN_S)

    async with aiohttp.ClientSession(timeout=timeout) as http:
        await _sum_up(http, nodes, history)
        await asyncio.gather(*(ask(http) for _ in range(AT_ONCE)))


async def _sum_up(http: aiohttp.ClientSession, nodes: Sequence[LocalNode], history: History) -> None:
    """What the ledger of the node that can sums up."""
    for node in nodes:
        asked_ms, _ = history.now()
        try:
            async with http.get(f"{node.url}/v1/ledger/summary", params={"from": EVER}) as answer:
                found: dict[str, Any] = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError):
            continue
        if answer.status == 200:
            mono_ms, wall_ms = history.now()
            whole = found["window"]["complete"] and not any(found["flags"][flag] for flag in FORGOTTEN)
            told = {"lost": found["classes"]["lost"], "strict_failover": found["strict_failover"]}
            told |= {"hand_overs": found["hand_overs"], "complete": whole}
            history.record(Summed(mono_ms=mono_ms, wall_ms=wall_ms, asked_mono_ms=asked_ms, **told))
            return


async def look(
    http: aiohttp.ClientSession, node: LocalNode, message: Answered, history: History, *, ledger: bool = False
) -> bool:
    """One GET, told of where it was answered; whether another one would say no more."""
    asked_mono_ms, asked_ms = history.now()
    url = f"{node.url}/v1/messages/{message.message_id}"
    try:
        async with http.get(url, params={"ledger": "true" if ledger else "false"}) as answer:
            found: dict[str, Any] = await answer.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return False
    if answer.status != 200:
        return answer.status < 500
    mono_ms, wall_ms = history.now()
    common: dict[str, Any] = {"mono_ms": mono_ms, "wall_ms": wall_ms, "number": message.number}
    common["message_id"] = message.message_id
    told = [(each["event"], _ms(each["at"]), each["node"], each["term"], each["attempt"]) for each in found["history"]]
    history.record(
        Looked(
            **common,
            asked_wall_ms=asked_ms,
            state=found["state"],
            due_ms=_ms(found["due"]) or 0,
            attempt=found["attempt"],
            handed_over_ms=_ms(found["handed_over"]),
            lateness_ms=found["lateness_ms"],
            history=tuple(told),
        )
    )
    words = found.get("ledger")
    if words is not None and words["class"] is not None:
        whole = words["window"]["complete"] and not FORGOTTEN & set(words["flags"])
        hand_overs = len(words["deliveries"])
        old = OUTSIDE in words["flags"]
        told_of: dict[str, Any] = {"asked_mono_ms": asked_mono_ms, "kind": words["class"], "hand_overs": hand_overs}
        history.record(Accounted(**common, **told_of, complete=whole, old=old))
    return True


def _ms(text: str | None) -> int | None:
    return None if text is None else parse_time(text)
