"""The operations that this leader is about to begin, and the requests that wait for the end of one.

Nothing of it outlasts a term. Each term begins with an empty one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

from storage.format.predicate import Predicate


class OperationsInHand:
    """One for all terms of a group. `proposed` are predicates of operations whose entry is not known to be applied, by
    the mark of their command."""

    def __init__(self) -> None:
        self.proposed: dict[int, Predicate] = {}
        #: Called with a predicate when the messages that it held are free, because its operation does not begin.
        self.let_go: Callable[[Predicate], None] = _nobody
        self._waits: defaultdict[int, list[asyncio.Future[None]]] = defaultdict(list)

    async def ended(self, number: int) -> None:
        """Wait until this operation has ended, or the term is over."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waits[number].append(future)
        await future

    def end(self, number: int) -> None:
        """Wake the requests that wait for this operation."""
        for future in self._waits.pop(number, []):
            if not future.done():
                future.set_result(None)

    def clear(self) -> None:
        """Forget all, because the term is over. All requests that wait are woken."""
        self.proposed.clear()
        self.let_go = _nobody
        for number in list(self._waits):
            self.end(number)


def _nobody(which: Predicate) -> None:
    pass
