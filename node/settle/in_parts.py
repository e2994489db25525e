"""Proposes requests that need several entries. If one entry is refused after others were applied, the client must not
hear that nothing happened. It would send the whole request again to the next leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

import numpy as np

from api.port.loop_turn import LoopTurn
from api.port.problem import Problem
from node.handover.term import Term
from node.port.pull_port import NOT_KNOWN
from node.settle.wait_for_all import all_ended
from storage.format.array import U8

T = TypeVar("T")

#: Refusals that say that an entry was not proposed.
NOT_PROPOSED: Final = ("no-leader", "draining", "over-limit")
#: At most so many pieces of one request wait to be written at a time, so that other requests wait for no more of them.
WAITING_PIECES: Final = 2


async def in_parts(parts: Iterable[asyncio.Future[T]]) -> list[T | Problem]:
    """Wait until all parts of a request have ended. Return their results in order. A part that was refused has its
    Problem as its result.

    Raises the first refusal if no part was proposed, and any error that is not a Problem.
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
    """The refusals among the results."""
    return [each for each in results if isinstance(each, Problem)]


async def in_pieces(
    term: Term, pieces: Sequence[slice], propose: Callable[[slice], asyncio.Future[U8]]
) -> tuple[U8, Problem | None]:
    """Propose the pieces of a request one after the other; `propose` proposes one. Return the result of each row, and
    the first refusal if there was one. Rows of a refused piece have the result NOT_KNOWN.

    Raises the refusal if nothing was proposed, and `no-leader` if the term ended before the first piece. Once the term
    is over no more pieces are proposed, because the next term does not hold their units, even on the same node.
    """
    parts: list[asyncio.Future[U8]] = []
    refused: list[Problem] = []
    turn = LoopTurn()
    for number, piece in enumerate(pieces):
        if number >= WAITING_PIECES:
            await asyncio.wait([parts[number - WAITING_PIECES]])
        await turn.give_way()
        try:
            term.raise_if_over()
        except Problem as over:
            if not parts:
                raise
            refused.append(over)
            break
        parts.append(propose(piece))
    results = await in_parts(parts) + refused * (len(pieces) - len(parts))
    known = [_known(result, piece) for result, piece in zip(results, pieces, strict=True)]
    return np.concatenate([np.empty(0, np.uint8), *known]), next(iter(refusals_of(results)), None)


def _known(result: U8 | Problem, piece: slice) -> U8:
    """The results of a piece, NOT_KNOWN for each row if it was refused."""
    return np.full(piece.stop - piece.start, NOT_KNOWN, np.uint8) if isinstance(result, Problem) else result
