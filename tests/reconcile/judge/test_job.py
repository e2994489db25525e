"""The reconciliation of small node directories, in this process: counts add up, whatever is damaged, cut or missing."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from reconcile.files.problem import DataRefused
from reconcile.judge import first_pass, job, shuffle
from reconcile.judge.job import Reconciliation, Request, reconcile
from reconcile.output.directory import Output, OutputRefused
from storage.export.export import Export
from storage.export.source import read_source
from storage.file.disk import Disk
from storage.format.batches import SettleBatch
from storage.format.position import HOUR_MS
from storage.format.rows import HEADER_SIZE, SETTLE, UNIT
from storage.format.states import CANCELLED, DELIVERED, LEASED
from storage.record.delivery_record import START, TERM_BEGUN, Deliveries
from storage.store import Store
from tests.reconcile.directories import NOW, flip, hand_overs, log_deliveries, make_node, term_row
from tests.storage.workload import Entry, append, moved, turn

COUNT = 40
TERM = 3
FIRST_DUE_MS = 1_000


def settled(what: int, *indexes: int, after_ms: int, lease_ms: int = 30_000) -> Entry:
    """Settle records of units of the first hour, `after_ms` after each fell due, for the hand-over (TERM, 1)."""

    def entry(store: Store) -> None:
        for index in indexes:
            at_ms = NOW + FIRST_DUE_MS + index + after_ms
            when = at_ms + lease_ms if what == LEASED else 0
            home = NOW // HOUR_MS << 40 | index
            store.settle(
                SettleBatch.of([home], what=what, at_ms=at_ms, when=when, term=TERM, attempt=1, node=1, code=0)
            )

    return entry


DONE = tuple(range(0, COUNT, 2))
LAST = COUNT
"""The message that is cancelled long after all else: so far the records go."""
ENTRIES: list[Entry] = [
    turn(0),
    append(*range(FIRST_DUE_MS, FIRST_DUE_MS + COUNT + 1)),
    settled(LEASED, *DONE, after_ms=1),
    settled(DELIVERED, *DONE, after_ms=5),
    settled(CANCELLED, LAST, after_ms=5 * HOUR_MS),
]


def account(indexes: Sequence[int], *, late_ms: int = 0) -> Deliveries:
    """Starts and ends of these messages of the first hour, as their node writes them down."""
    due = [NOW + FIRST_DUE_MS + index for index in indexes]
    homes = [NOW // HOUR_MS << 40 | index for index in indexes]
    rows = hand_overs(homes, [ms + 1 + late_ms for ms in due], term=TERM)
    rows["random"] = np.repeat(np.array(due, np.uint64) * np.uint64(2654435761), 2) & np.uint64((1 << 50) - 1)
    rows["asked_due_ms"] = np.where(rows["kind"] == START, np.repeat(due, 2), 0)
    return rows


@pytest.fixture
def nodes(tmp_path: Path) -> Path:
    """Two nodes with one hour of 40 messages, 20 of which n1 handed over, and pending ones."""
    root = tmp_path / "nodes"
    for seed, name in enumerate(("n1", "n2"), 1):
        make_node(root / name, ENTRIES, seed=seed)
    log_deliveries(root / "n1", term_row(TERM_BEGUN, TERM, NOW), account(DONE))
    return root


def run(data: Path, out: Path, **options: Any) -> dict[str, Any]:
    """The report's document, whose checks must hold."""
    document = reconcile(None, Request([data], out, overwrite=True, options=options))
    assert [check for check in document["checks"] if not check["held"]] == []
    assert json.loads((out / "report.json").read_bytes()) == document
    return document


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    """All rows of a table."""
    found: list[dict[str, Any]] = pq.read_table(out / table).to_pylist()
    return found


def test_every_message_is_one_row(nodes: Path, tmp_path: Path) -> None:
    """What was delivered and what is pending, as the records say; nothing is broken, nothing a duplicate."""
    document = run(nodes, tmp_path / "out")
    wanted = {"delivered_once": len(DONE), "pending": COUNT - len(DONE), "cancelled": 1}
    assert {name: count for name, count in document["classes"].items() if count} == wanted
    assert document["promises_broken"] == []
    ledger = rows(tmp_path / "out", "ledger")
    assert [row["home"] & 0xFFFF for row in ledger] == list(range(COUNT + 1))
    assert [row["first_ms"] for row in ledger[:2]] == [NOW + FIRST_DUE_MS + 1, None]
    assert len(rows(tmp_path / "out", "canonical")) == len(DONE)
    assert rows(tmp_path / "out", "duplicates") == rows(tmp_path / "out", "repairs") == []
    assert (tmp_path / "out" / "report.html").is_file()
    assert not (tmp_path / "out" / ".work").exists()


def test_a_hand_over_in_another_hours_file_reaches_its_message(nodes: Path, tmp_path: Path) -> None:
    """A repeat an hour later stands in a file of that hour, and is a duplicate all the same."""
    again = account([4], late_ms=HOUR_MS)
    again["attempt"] = 2
    log_deliveries(nodes / "n1", again)
    document = run(nodes, tmp_path / "out")
    assert document["classes"]["delivered_more"] == 1
    assert [row["home"] & 0xFFFF for row in rows(tmp_path / "out", "duplicates")] == [4]


def test_a_hand_over_of_no_message_is_counted(nodes: Path, tmp_path: Path) -> None:
    """Of an hour that no node has, and of a number that its hour has not given out."""
    for hour, index in ((NOW // HOUR_MS + 50, 1), (NOW // HOUR_MS, 1000)):
        odd = account([1])
        odd["home"] = hour << 40 | index
        log_deliveries(nodes / "n1", odd)
    assert run(nodes, tmp_path / "out")["foreign"] == 4


def test_what_is_beyond_the_settle_records_is_not_judged(nodes: Path, tmp_path: Path) -> None:
    """The log of a running node is ahead of its hours: a hand-over whose Lease may not be written yet waits."""
    log_deliveries(nodes / "n1", account([4], late_ms=6 * HOUR_MS))
    document = run(nodes, tmp_path / "out")
    assert (document["beyond"], document["classes"]["delivered_more"]) == (2, 0)


@pytest.mark.parametrize("cut_at", [8, 16])
def test_how_hours_are_cut_into_buckets_does_not_matter(
    nodes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_at: int
) -> None:
    """The same messages and duplicates from buckets of 8 as from one."""
    log_deliveries(nodes / "n1", account([5], late_ms=HOUR_MS), account([21], late_ms=2 * HOUR_MS))
    whole = run(nodes, tmp_path / "whole")
    monkeypatch.setattr(first_pass, "BUCKET_UNITS", cut_at)
    for module in (shuffle, first_pass, job):
        monkeypatch.setattr(module, "BUCKET_BITS", cut_at.bit_length() - 1)
    cut = run(nodes, tmp_path / "cut")
    assert len(list((tmp_path / "cut" / "ledger").iterdir())) == COUNT // cut_at + 1
    for table in ("ledger", "duplicates", "canonical", "repairs"):
        assert rows(tmp_path / "cut", table) == rows(tmp_path / "whole", table)
    assert {**cut, "took_s": 0} == {**whole, "took_s": 0}


def test_a_moved_message_is_one_message(tmp_path: Path) -> None:
    """Born in one hour, sent on to another: its story is told at its home, and both units are accounted for."""
    entries = [*ENTRIES, moved(2 * HOUR_MS + 500, (0, 3), (0, 7))]
    make_node(tmp_path / "nodes" / "n1", entries)
    log_deliveries(tmp_path / "nodes" / "n1", term_row(TERM_BEGUN, TERM, NOW), account(DONE))
    document = run(tmp_path / "nodes", tmp_path / "out")
    assert document["scheduled"] == COUNT + 1
    moved_rows = [row for row in rows(tmp_path / "out", "ledger") if row["due_ms"] == NOW + 2 * HOUR_MS + 500]
    assert [row["home"] & 0xFFFF for row in moved_rows] == [3, 7]


def test_damage_to_one_copy_changes_nothing_and_is_named(nodes: Path, tmp_path: Path) -> None:
    """The other node's copy is read."""
    sound = run(nodes, tmp_path / "sound")
    flip(nodes / "n1" / "hours" / str(NOW // HOUR_MS) / "index", HEADER_SIZE + 5 * UNIT.itemsize + 33)
    document = run(nodes, tmp_path / "out")
    assert document["classes"] == sound["classes"]
    assert [problem["file"].rsplit("/", 1)[-1] for problem in document["problems"]] == ["index"]


def test_what_no_copy_has_whole_is_counted(nodes: Path, tmp_path: Path) -> None:
    """A unit that is damaged on all nodes is no message of the report; it is told as unreadable, and counts add up."""
    for node in ("n1", "n2"):
        flip(nodes / node / "hours" / str(NOW // HOUR_MS) / "index", HEADER_SIZE + 5 * UNIT.itemsize + 33)
    document = run(nodes, tmp_path / "out")
    assert (document["unreadable"]["units"], document["scheduled"]) == (1, COUNT)
    assert {problem["kind"] for problem in document["problems"]} == {"damaged", "unreadable"}
    assert "1 units are whole in no copy given" in document["promises_broken"]


@pytest.mark.parametrize(("name", "row"), [("index", UNIT.itemsize), ("settle", SETTLE.itemsize)])
def test_what_every_copy_lacks_breaks_a_promise(nodes: Path, tmp_path: Path, name: str, row: int) -> None:
    """Cut short on one node it is read from the other; on both, what their checkpoints vouch for is gone."""
    assert not run(nodes, tmp_path / "sound")["promises_broken"]
    for node in ("n1", "n2"):
        file = nodes / node / "hours" / str(NOW // HOUR_MS) / name
        os.truncate(file, file.stat().st_size - 3 * row)
        document = run(nodes, tmp_path / f"without-{node}")
        said = [sentence for sentence in document["promises_broken"] if "in no copy given" in sentence]
        assert len(said) == (node == "n2"), document["promises_broken"]


def test_an_export_says_the_same_as_the_directories(nodes: Path, tmp_path: Path) -> None:
    """What nodes shipped is reconciled as what they have."""
    for node in ("n1", "n2"):
        Export(read_source(nodes / node, Disk(), NOW + 10 * HOUR_MS), tmp_path / "export", Disk()).run()
    shipped = run(tmp_path / "export", tmp_path / "shipped")
    assert shipped["classes"] == run(nodes, tmp_path / "out")["classes"]
    assert rows(tmp_path / "shipped", "ledger") == rows(tmp_path / "out", "ledger")


def test_the_output_directory_is_ours_or_new(nodes: Path, tmp_path: Path) -> None:
    """What is there is refused unless it is wished away, and what is not ours even then."""
    out = tmp_path / "out"
    run(nodes, out)
    with pytest.raises(OutputRefused, match="--overwrite"):
        reconcile(None, Request([nodes], out))
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(OutputRefused, match=r"thesis\.txt"):
        reconcile(None, Request([nodes], out, overwrite=True))
    assert (out / "thesis.txt").read_text() == "mine"


def test_data_that_is_not_there_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The message names the path."""
    with pytest.raises(DataRefused, match="nowhere"):
        reconcile(None, Request([tmp_path / "nowhere"], tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_refresh_judges_only_what_changed(nodes: Path, tmp_path: Path) -> None:
    """Nothing new and nothing open: nothing is done; a hand-over more: that bucket; all is as in a first run."""
    rest = tuple(index for index in range(COUNT) if index not in DONE)
    root = tmp_path / "all"
    make_node(root / "n1", [*ENTRIES, settled(LEASED, *rest, after_ms=1), settled(DELIVERED, *rest, after_ms=5)])
    log_deliveries(root / "n1", term_row(TERM_BEGUN, TERM, NOW), account(range(COUNT)))
    with Output(tmp_path / "out") as output:
        current = Reconciliation(None, Request([root], output.path), output)
        judged = []
        for _ in range(2):
            assert current.refresh()["classes"]["delivered_once"] == COUNT
            judged.append(current.judged)
        log_deliveries(root / "n1", account([4], late_ms=HOUR_MS))
        document = current.refresh()
        assert (judged, current.judged) == ([1, 0], 1)
    fresh = run(root, tmp_path / "fresh")
    assert {**document, "took_s": 0} == {**fresh, "took_s": 0}
    assert rows(tmp_path / "out", "ledger") == rows(tmp_path / "fresh", "ledger")


def test_open_messages_are_looked_at_again(nodes: Path, tmp_path: Path) -> None:
    """A bucket with pending ones is judged at every refresh: they fall due though no record says so."""
    with Output(tmp_path / "out") as output:
        current = Reconciliation(None, Request([nodes], output.path), output)
        assert [current.refresh()["classes"]["pending"] for _ in range(2)] == [COUNT - len(DONE)] * 2
        assert current.judged == 1


def test_a_run_that_fails_leaves_nothing_in_the_way_of_the_next(nodes: Path, tmp_path: Path) -> None:
    """A directory that it made is gone again, and one that was there is as empty as it was; an earlier report stays."""
    (tmp_path / "there").mkdir()
    for name in ("new", "there"):
        with pytest.raises(DataRefused, match="no topic is called nobody"):
            reconcile(None, Request([nodes], tmp_path / name, receipts_of=["nobody"]))
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "there").iterdir()) == []
    output = Output(tmp_path / "new")
    Reconciliation(None, Request([nodes], output.path), output.__enter__()).refresh()
    output.__exit__(RuntimeError, None, None)
    assert rows(tmp_path / "new", "ledger")
