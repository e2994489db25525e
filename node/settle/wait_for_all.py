"""Waits for several results together. If the caller is cancelled, the work goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


async def all_ended(parts: Iterable[asyncio.Future[T]]) -> list[T | BaseException]:
    """Wait until all parts have ended. Return the result or error of each, in the order of the parts. Shielded: see
    `all_of`."""
    return await asyncio.shield(asyncio.gather(*parts, return_exceptions=True))


async def all_of(parts: Iterable[asyncio.Future[T]]) -> list[T]:
    """Wait until all parts have ended. Return the results in the order of the parts, or raise the first of their
    errors.

    Shielded: if the caller is cancelled, the parts are not. Their errors are then dropped on purpose. Otherwise the
    event loop would log each error as one that was never retrieved.
    """
    results: list[T] = []
    for each in await all_ended(parts):
        if isinstance(each, BaseException):
            raise each
        results.append(each)
    return results
