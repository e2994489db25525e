"""Requests that take several entries. What they have done by the time one entry is refused is never answered as if
nothing had happened: such an answer is asked again, of whoever leads then, from the start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from api.problem import Problem
from node.all_of import all_ended

T = TypeVar("T")

#: Refusals that say of an entry that it was not proposed.
NOT_PROPOSED: Final = ("no-leader", "draining", "over-limit")


def unfinished(refusal: Problem, **done: Any) -> Problem:
    """The refusal of a request of which a part was done, or may have been; `done` tells how much is known to be."""
    return Problem(
        "outcome-unknown",
        f"a part of this was done, or may have been, before it was refused ({refusal.detail}); "
        "what is known to be done stands here, and asked again it does the rest",
        **done,
    )


async def in_parts(parts: Iterable[asyncio.Future[T]]) -> list[T | Problem]:
    """The results in the order of the parts, once all have ended, with the refusals of some among them.

    Raises the first refusal where no part was proposed, and what is no refusal.
    """
    ended = await all_ended(parts)
    results: list[T | Problem] = []
    for each in ended:
        if isinstance(each, BaseException) and not isinstance(each, Problem):
            raise each
        results.append(each)
    refusals = refusals_of(results)
    if refusals and len(refusals) == len(results) and all(each.code in NOT_PROPOSED for each in refusals):
        raise refusals[0]
    return results


def refusals_of(results: Sequence[T | Problem]) -> list[Problem]:
    """Those among them."""
    return [each for each in results if isinstance(each, Problem)]
