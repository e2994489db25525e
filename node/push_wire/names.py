"""The addresses of receivers' names: looked up in threads, remembered, and with look-ups shared out between topics.

A name server that hangs holds a look-up for 10 s and more, and any client may name any number of receivers. So

- a resolved name serves for FRESH_S, and for STALE_S while a new look-up runs: known receivers wait for no look-up;
- a name that failed is not looked up again for FAILED_S;
- names that never resolved get only NEW_MAX of the LOOKUPS_MAX look-ups, and those of one topic TOPIC_MAX of these;
- an attempt that waits here for its turn has not been tried: `waits` says so, and the attempt does not count.

A look-up goes on even if no attempt waits for it any more, and its result is kept.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult

#: Seconds for which found addresses serve: long enough for a burst, short enough to follow a receiver that moves.
FRESH_S: Final = 10.0
#: Seconds for which found addresses serve while the name server is away.
STALE_S: Final = 600.0
FAILED_S: Final = 5.0
#: Names looked up at the same time: all; those that never resolved; those that never resolved, of one topic.
LOOKUPS_MAX: Final = 256
NEW_MAX: Final = 192
TOPIC_MAX: Final = 32
#: Names that are remembered.
KNOWN_MAX: Final = 10_000

Topic = tuple[int, int]
"""A group's number, and a topic's number in it."""
TOPIC: Final[ContextVar[Topic]] = ContextVar("topic")
"""The topic for which the running task makes a connection."""

Addresses = list[ResolveResult]


@dataclass(slots=True)
class _Known:
    """The newest addresses of a name, and the loop's second at which they were found. `addresses` is empty if it never
    resolved. `failure` is that of the newest look-up, if it failed."""

    addresses: Addresses
    found_s: float
    failure: OSError | None = None
    failed_s: float = 0.0


class Names(AbstractResolver):
    """A resolver that runs getaddrinfo in threads of its own. The pool of the loop also reads slots, which a name
    server that hangs must not hold up. The threads are daemons of their own, so that such a server does not hold up the
    end of the process either."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], _Known] = {}  # by host and family; the newest request is at the end
        self._under_way: dict[tuple[str, int], asyncio.Future[None]] = {}
        self._waiting: deque[tuple[tuple[str, int], Topic, asyncio.Future[None]]] = deque()
        self._waiting_hosts: dict[str, int] = {}
        self._new = 0  # look-ups under way of names that never resolved
        self._by_topic: dict[Topic, int] = {}  # those of `_new` by topic
        self._giving = False  # waiting look-ups begin in the loop's next turn

    def waits(self, host: str) -> bool:
        """True if a look-up of this name waits for its turn to begin."""
        return host in self._waiting_hosts

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a name: remembered ones if they may serve, otherwise after a look-up. Raises
        OSError."""
        name, now_s = (host, int(family)), _now_s()
        known = self._known.pop(name, None)
        if known is not None:
            self._known[name] = known
            usable = bool(known.addresses) and now_s < known.found_s + STALE_S
            if usable and now_s < known.found_s + FRESH_S:
                return _at(known.addresses, port)
            if known.failure is not None and now_s < known.failed_s + FAILED_S:
                if usable:
                    return _at(known.addresses, port)
                raise known.failure
            if usable:
                if name not in self._under_way and len(self._under_way) < LOOKUPS_MAX:
                    self._look_up(name, None)
                return _at(known.addresses, port)
        await self._looked_up(name)
        found = self._known[name]
        if found.failure is not None:
            raise found.failure
        return _at(found.addresses, port)

    async def _looked_up(self, name: tuple[str, int]) -> None:
        """Wait for the look-up of a name without usable addresses. If as many run as may, first wait for a turn."""
        topic = TOPIC.get((0, 0))
        while name not in self._under_way and not self._is_fresh(name):
            if self._has_room(topic):
                self._look_up(name, topic)
                break
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((name, topic, room))
            self._waiting_hosts[name[0]] = self._waiting_hosts.get(name[0], 0) + 1
            try:
                await room
            finally:
                left = self._waiting_hosts.pop(name[0]) - 1
                if left:
                    self._waiting_hosts[name[0]] = left
        if name in self._under_way:
            await asyncio.shield(self._under_way[name])

    def _is_fresh(self, name: tuple[str, int]) -> bool:
        """True if the name was looked up while this call waited for its turn."""
        known, now_s = self._known.get(name), _now_s()
        if known is None:
            return False
        failed = known.failure is not None and now_s < known.failed_s + FAILED_S
        return failed or (bool(known.addresses) and now_s < known.found_s + FRESH_S)

    def _has_room(self, topic: Topic) -> bool:
        return len(self._under_way) < LOOKUPS_MAX and self._new < NEW_MAX and self._by_topic.get(topic, 0) < TOPIC_MAX

    def _look_up(self, name: tuple[str, int], topic: Topic | None) -> None:
        """Begin a look-up. `topic` is None for a name that resolved before."""
        loop = asyncio.get_running_loop()
        self._under_way[name] = loop.create_future()
        if topic is not None:
            self._new += 1
            self._by_topic[topic] = self._by_topic.get(topic, 0) + 1

        def done(addresses: Addresses, failure: OSError | None) -> None:
            self._note(name, addresses, failure, _now_s())
            if topic is not None:
                self._new -= 1
                left = self._by_topic.pop(topic) - 1
                if left:
                    self._by_topic[topic] = left
            self._under_way.pop(name).set_result(None)
            if not self._giving:  # many end in one turn of the loop if a name server does not answer
                self._giving = True
                loop.call_soon(self._give_room)

        threading.Thread(target=_ask, args=(loop, done, *name), daemon=True).start()

    def _note(self, name: tuple[str, int], addresses: Addresses, failure: OSError | None, now_s: float) -> None:
        """Note the result of a look-up. If the look-up failed, the addresses that an earlier one found are kept."""
        known = self._known.pop(name, None) or _Known([], 0.0)
        if failure is None:
            known = _Known(addresses, now_s)
        else:
            known.failure, known.failed_s = failure, now_s
        self._known[name] = known
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    def _give_room(self) -> None:
        """Begin the look-ups that have waited longest, as many as may run at once. If a look-up of the same name began
        meanwhile, its result serves all that wait for the name."""
        self._giving = False
        for _ in range(len(self._waiting)):
            name, topic, room = self._waiting.popleft()
            if room.done():
                continue
            if name in self._under_way or self._is_fresh(name):
                room.set_result(None)
            elif self._has_room(topic):
                self._look_up(name, topic)
                room.set_result(None)
            else:
                self._waiting.append((name, topic, room))

    async def close(self) -> None:
        """Do nothing: threads that still wait end by themselves, and no part reads their results."""


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _at(addresses: Addresses, port: int) -> Addresses:
    """Return the same addresses with this port."""
    return [ResolveResult(**{**each, "port": port}) for each in addresses]


def _ask(loop: asyncio.AbstractEventLoop, done: Callable[..., None], host: str, family: int) -> None:
    """Look the name up, in a thread, and give the result to `done` on the loop."""
    addresses: Addresses = []
    failure: OSError | None = None
    try:
        flags = socket.AI_ADDRCONFIG
        rows: list[Any] = socket.getaddrinfo(host, 0, family=family, type=socket.SOCK_STREAM, flags=flags)
        addresses = [
            ResolveResult(hostname=host, host=str(address[0]), port=0, family=kind, proto=protocol, flags=0)
            for kind, _, protocol, _, address in rows
        ]
    except (OSError, UnicodeError) as error:
        failure = error if isinstance(error, OSError) else OSError(None, str(error))
    with suppress(RuntimeError):  # the loop is closed: nothing waits
        loop.call_soon_threadsafe(done, addresses, failure)
