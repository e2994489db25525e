"""The receipts of one ack, nack or extend: the hand-overs that they name go to the group, and each receipt gets its
result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from api.port.loop_turn import in_turns
from node.port.pull_port import INVALID, NOT_KNOWN, SETTLED, STALE, Settled
from node.port.receipt import Receipts
from node.port.refusal import unfinished


def _words(done: str) -> npt.NDArray[Any]:
    assert (SETTLED, STALE, INVALID, NOT_KNOWN) == (0, 1, 2, 3)
    return np.array([done, "stale", "invalid", "unknown"], object)


_WORDS: Final = {done: _words(done) for done in ("acked", "nacked", "extended")}


class ShownReceipts:
    """The receipts of one request, as the client sent them. If one is sent twice, both get one result. Text that is no
    receipt of the group is invalid.

    Call `read` first, and then `answer` with what the group returned.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._once = texts if len(set(texts)) == len(texts) else list(dict.fromkeys(texts))
        self._rows = np.empty(0, np.intp)

    async def read(self, receipts: Receipts) -> bytes:
        """Return the hand-overs that the receipts name, each once, as rows of receipt.CLAIM."""
        self._rows, claims = await in_turns(receipts.read_in_pieces(self._once))
        return claims

    def answer(self, done: str, settled: Settled) -> list[str]:
        """Return a word for each receipt, in the client's order. `done` is the word for success. If the group refused a
        part of the request, raise `outcome-unknown` with these words."""
        results = np.full(len(self._once), INVALID, np.uint8)
        results[self._rows] = np.frombuffer(settled.results, np.uint8)
        words: list[str] = _WORDS[done][results].tolist()
        if self._once is not self._texts:
            said = dict(zip(self._once, words, strict=True))
            words = [said[text] for text in self._texts]
        if settled.refused is not None:
            pairs = zip(self._texts, words, strict=True)
            raise unfinished(settled.refused, results=[{"receipt": text, "result": word} for text, word in pairs])
        return words
