"""What is planted is found, with the right cause, and nothing else; the directories are such as nodes leave."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from ledger.columns import DUPLICATES, LEDGER, Cause, Columns, Flag, LateCause, Lost, MessageClass, join_columns
from ledger.judge import Ledger
from ledger.summary import Summary
from reconcile.planted import Planted, make
from reconcile.planted_files import crc32_of
from reconcile.planted_story import AUDITED
from storage.verify import verify
from tests.reconcile.judging import judge_directories

EACH = 12


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Two hours with a few thousand plain messages and a dozen of each story."""
    return make(tmp_path_factory.mktemp("planted"), messages=6_000, per_hour=3_000, each=EACH, kills=3)


def tables(ledgers: list[Ledger]) -> tuple[Columns, Columns]:
    """All messages, all duplicates."""
    return (
        join_columns([ledger.messages for ledger in ledgers], LEDGER),
        join_columns([ledger.duplicates for ledger in ledgers], DUPLICATES),
    )


@pytest.mark.parametrize("receipts", [False, True])
def test_all_that_was_planted_is_found_and_no_more(planted: Planted, receipts: bool) -> None:
    """Each story's class, flags, causes and counts, at its ids; every other message was delivered once."""
    ledgers = judge_directories(
        planted.directories, from_ms=planted.from_ms, until_ms=planted.until_ms,
        receipts=planted.receipts if receipts else None, audited=AUDITED,
    )  # fmt: skip
    assert planted.differences(*tables(ledgers), receipts=receipts) == []
    summary = sum((Summary.of(ledger) for ledger in ledgers), Summary())
    assert summary.wrong() == []
    assert summary.scheduled == planted.messages
    assert summary.foreign == 0
    assert {change.span_ms <= 45 for change in summary.changes.values()} == {True}
    assert sorted(summary.changes) == [(2, 3), (3, 4), (4, 5)]


def test_every_word_of_the_ledger_has_a_story(planted: Planted) -> None:
    """Else finding what was planted would say nothing of the word that has none."""
    expected = planted.expected
    assert set(expected["class"].tolist()) == set(MessageClass)
    assert set(expected["late_cause"].tolist()) == set(LateCause)
    assert set(planted.repeats["cause"].tolist()) == set(Cause) - {Cause.NONE}
    # What is not stored at all is no row: `never_stored`. The last one is told of drained runs only.
    assert set(expected["lost"].tolist()) == set(Lost) - {Lost.NOT_FOUND, Lost.NEVER_HANDED_OVER}
    assert Flag(int(np.bitwise_or.reduce(expected["flags"]))) == ~Flag(0)
    assert np.bincount(expected["story"]).tolist() == [EACH] * len(planted.stories)


def test_a_change_is_told(planted: Planted) -> None:
    """A single message told otherwise, or not at all, is a difference."""
    ledgers = judge_directories(planted.directories, from_ms=planted.from_ms, until_ms=planted.until_ms)
    messages, duplicates = tables(ledgers)
    messages["flags"][0] ^= np.uint32(Flag.EARLY)
    assert len(planted.differences(messages, duplicates, receipts=False)) == 2 + 1
    messages["flags"][0] ^= np.uint32(Flag.EARLY)
    fewer = {name: column[1:] for name, column in duplicates.items()}
    assert len(planted.differences(messages, fewer, receipts=False)) == 1 + 1


@pytest.mark.parametrize("node", range(3))
def test_verify_finds_nothing_wrong(planted: Planted, node: int) -> None:
    """Checksums, chains, counts and the checkpoint are as a node's own."""
    report = verify(planted.directories[node])
    assert report.faults == []
    assert report.deliveries > 1_000


def test_crc32_is_zlibs() -> None:
    """Of eight bytes, for any number."""
    words = np.random.default_rng(3).integers(0, 1 << 63, 100, dtype=np.uint64)
    assert crc32_of(words).tolist() == [zlib.crc32(word.tobytes()) for word in words]
