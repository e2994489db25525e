"""Several results that are waited for together, by somebody who may go away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


async def all_ended(parts: Iterable[asyncio.Future[T]]) -> list[T | BaseException]:
    """The results or errors in the order of the parts, once all have ended. Shielded: see `all_of`."""
    return await asyncio.shield(asyncio.gather(*parts, return_exceptions=True))


async def all_of(parts: Iterable[asyncio.Future[T]]) -> list[T]:
    """The results in the order of the parts, once all have ended; raises the first of their errors, in that order.

    Shielded: who waits and goes away takes none of them back. Then nobody hears of their errors either, and nobody is
    to: the event loop would log each as one that was never retrieved.
    """
    results: list[T] = []
    for each in await all_ended(parts):
        if isinstance(each, BaseException):
            raise each
        results.append(each)
    return results
