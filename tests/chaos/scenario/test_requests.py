"""Kills in the middle of single requests: one for real, and answers that the check must not let through."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any, cast

import pytest

from chaos.cluster.cluster import ClusterFailed
from chaos.scenario.requests import LINES, Load, kills


def load(kind: str) -> Load:
    """One without a cluster."""
    return Load(cast(Any, None), cast(Any, None), kind, "t", random.Random(1))


def lines(*replayed: bool) -> bytes:
    """The answer to a batch."""
    return b"\n".join(
        json.dumps({"line": at, "id": str(at), "replayed": each}).encode() for at, each in enumerate(replayed)
    )


def replaced(id: str, previous: str | None) -> bytes:
    """The answer to a replace."""
    return json.dumps({"id": id} | ({"previous": {"id": previous}} if previous else {})).encode()


def test_a_kill_in_the_middle_of_atomic_batches(tmp_path: Path) -> None:
    """Each batch is there whole, and what had no answer is told apart."""
    fell = asyncio.run(kills(tmp_path, "batch", 1, 1, lambda line: None))
    assert fell["answered"] > 0
    assert set(fell) <= {"answered", "not written", "written, not answered"}


def test_good_answers() -> None:
    """A chain of replaces, and batches that were written at once or before."""
    chain = load("replace")
    assert not chain._check(0, 201, False, replaced("a", None))
    assert chain._check(0, 201, True, replaced("b", "a"))
    assert (chain.held, chain.written) == ({0: "b"}, 1)
    whole = load("batch")
    assert not whole._check(0, 201, False, lines(*[False] * LINES))
    assert whole._check(0, 201, False, lines(*[True] * LINES))
    assert whole.written == 2 * LINES


def test_bad_answers() -> None:
    """A message that was replaced unseen, a batch that was written in part, and a refusal."""
    chain = load("replace")
    chain._check(0, 201, False, replaced("a", None))
    with pytest.raises(ClusterFailed, match="client 0 had a"):
        chain._check(0, 201, False, replaced("c", "b"))
    with pytest.raises(ClusterFailed, match="1 of 20 lines"):
        load("batch")._check(0, 201, False, lines(True, *[False] * (LINES - 1)))
    with pytest.raises(ClusterFailed, match="409"):
        load("once")._check(0, 409, False, b"{}")
