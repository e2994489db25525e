"""Kills in the middle of single requests: one for real, and answers that the check must not let through."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from chaos.cluster.cluster import ClusterFailed
from chaos.scenario.killed_leader import kills
from chaos.scenario.requests import LINES, Batches, Replacing, Said, once


def lines(*replayed: bool) -> Said:
    """The answer to a batch."""
    told = [json.dumps({"line": at, "id": str(at), "replayed": each}) for at, each in enumerate(replayed)]
    return Said(201, False, "\n".join(told).encode())


def replaced(id: str, previous: str | None, *, replayed: bool = False) -> Said:
    """The answer to a replace."""
    return Said(201, replayed, json.dumps({"id": id} | ({"previous": {"id": previous}} if previous else {})).encode())


def test_a_kill_in_the_middle_of_atomic_batches(tmp_path: Path) -> None:
    """Each batch is there whole, and what had no answer is told apart."""
    shown: list[str] = []
    fell = asyncio.run(kills(tmp_path, partial(once, Batches), 1, 1, answer_s=5.0, show=shown.append))
    assert fell["answered"] > 0
    assert set(fell) <= {"answered", "not written", "written, not answered"}
    assert len(shown) == 1


def test_good_answers() -> None:
    """A chain of replaces, and batches that were written at once or before."""
    chain = Replacing("t")
    assert not chain.check(0, replaced("a", None))
    assert chain.check(0, replaced("b", "a", replayed=True))
    assert (chain.held, chain.open) == ({0: "b"}, 1)
    whole = Batches("t")
    assert not whole.check(0, lines(*[False] * LINES))
    assert whole.check(0, lines(*[True] * LINES))
    assert whole.open == 2 * LINES


def test_bad_answers() -> None:
    """A message that was replaced unseen, and a batch that was written in part."""
    chain = Replacing("t")
    chain.check(0, replaced("a", None))
    with pytest.raises(ClusterFailed, match="client 0 had a"):
        chain.check(0, replaced("c", "b"))
    with pytest.raises(ClusterFailed, match="1 of 20 lines"):
        Batches("t").check(0, lines(True, *[False] * (LINES - 1)))
