"""What a node's log says of a term it was elected for: marked from level 3 on, told also where it never reigned."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.terms import terms_of
from ledger.unrecorded import unrecorded
from node.handover.delivery_log import LOST
from node.leader.term_record import TermRecord
from node.node import Node
from storage.file.delivery_file import delivery_files, read_delivery_file
from storage.file.disk import Disk
from storage.format.level import LEVELS
from storage.format.rows import join_rows
from storage.record.delivery_record import DELIVERY, GOES_ON, TERM_BEGUN, TERM_ENDED, Deliveries
from tests.node.single_node import run_node
from tests.waiting import until


def records(directory: Path) -> Deliveries:
    """Of a node's log."""
    disk, where = Disk(), directory / "deliveries"
    return join_rows(
        [rows for file in delivery_files(where, disk) for rows, _ in read_delivery_file(where / file.name, disk)],
        DELIVERY,
    )


def test_below_level_3_a_beginning_has_the_bytes_it_had_and_the_log_goes_on_with_a_mark_when_the_level_rises(
    tmp_path: Path,
) -> None:
    """With the run of the machine, and the term before: none where the cluster was founded, the former one later. The
    mark counts the records before it, for a power cut may take those alone."""
    boots = set()

    async def play(node: Node) -> None:
        boots.add(node.group.boot)
        await until(lambda: node.group.store.level == LEVELS[1])

    run_node(tmp_path / "n1", play)
    first, again, _ = records(tmp_path / "n1")
    assert (first["kind"], first["random"], first["took_ms"], first["term"]) == (TERM_BEGUN, 0, 0, 1)
    assert (again["kind"], again["random"], again["home"], again["term"]) == (GOES_ON, *boots, 0, 1)
    assert again["took_ms"] == 1
    run_node(tmp_path / "n1", play)
    later = records(tmp_path / "n1")[3]
    assert (later["kind"], later["random"], later["took_ms"]) == (TERM_BEGUN, *boots, 1)
    assert len(boots) == 1


@pytest.mark.parametrize("level", LEVELS)
def test_a_term_that_was_given_up_at_once_is_told_by_its_end(tmp_path: Path, level: int) -> None:
    """Its no-op is in the log, and the next term names it: else that would be a gap. Below level 3 nobody asks."""

    async def play(node: Node) -> None:
        await until(lambda: node.group.store.level == LEVELS[1])
        node.group.delivery_log.term_ended(node.group.raft.term, node.group.clock.now_ms(), LOST)
        store: Any = SimpleNamespace(
            level=level, cluster_id=node.group.store.cluster_id, catalog=node.group.store.catalog
        )
        parts = (store, node.group.clock, node.life, node.group.delivery_log, node.group.boot)
        TermRecord(2, 1, *parts, giving=lambda: False).pass_by()
        TermRecord(3, 2, *parts, giving=lambda: False).begin(node.group.clock.now_ms())

    run_node(tmp_path / "n1", play)
    rows = records(tmp_path / "n1")
    ends = rows[(rows["term"] == 2) & (rows["kind"] == TERM_ENDED)]
    assert ends["code"].tolist() == ([LOST] if level == LEVELS[1] else [])
    assert len(unrecorded(terms_of(rows), 0)) == 0


def test_a_term_that_was_lost_before_its_leader_was_established_is_told_by_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its no-op may be in the log, so the next term names it, and nobody else tells of it."""
    terms: list[int] = []

    async def play(node: Node) -> None:
        await until(lambda: node.group.store.level == LEVELS[1])
        with monkeypatch.context() as held:
            held.setattr(node.group.raft, "_apply", lambda now: False)
            node.group.raft.resign()
            await until(lambda: node.group.raft.is_leader)
            terms.append(node.group.raft.term)
            assert not node.group.raft.established
            node.group.raft.resign()
        await until(lambda: node.group.leader_term is not None)
        terms.append(node.group.raft.term)

    run_node(tmp_path / "n1", play)
    rows = records(tmp_path / "n1")
    (ended,) = rows[rows["term"] == terms[0]]
    assert (ended["kind"], ended["code"], ended["took_ms"], ended["random"] > 0) == (
        TERM_ENDED,
        LOST,
        terms[0] - 1,
        True,
    )
    (begun,) = rows[(rows["term"] == terms[1]) & (rows["kind"] == TERM_BEGUN)]
    assert begun["took_ms"] == terms[0]
    assert len(unrecorded(terms_of(rows), 0)) == 0
