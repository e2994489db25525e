"""The inventory lists every node, hour and delivery file once, and says what is wrong with each."""

import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from ledger.bucket import Topic
from reconcile.files.inventory import BUCKET_UNITS, Inventory, Span
from reconcile.files.node import read_node
from reconcile.files.problem import CUT_SHORT, DAMAGED, FOREIGN, MISSING, DataRefused
from storage.export.export import Export
from storage.export.source import read_source
from storage.file.disk import Disk
from storage.format.position import EVER_MS
from storage.format.rows import HEADER_SIZE, SETTLE, UNIT
from storage.format.states import LEASED
from storage.record.delivery_record import TERM_BEGUN
from storage.store import Store
from storage.tables.topic import PAUSED_SINCE, RESUMED_AT
from tests.reconcile.directories import NOW, cut, flip, hand_overs, log_deliveries, make_node, positions, term_row
from tests.storage.workload import HOUR, Entry, H, append, checkpoint, settle, topic, turn, unlink

ENTRIES: list[Entry] = [
    turn(0),
    topic("orders"),
    append(5_000, 5_001, 1_000, H + 5, 5_500),
    settle(LEASED, (0, 0), (0, 1), (1, 0)),
    append(6_000, 7_000),
]
"""Six units in the first hour, one in the next."""


def nodes(root: Path) -> list[Path]:
    """Three nodes: one that was stopped, one that was killed after its last checkpoint, one that lags behind."""
    return [
        make_node(root / "n1", ENTRIES, seed=1),
        make_node(root / "n2", ENTRIES, checkpoint_after=4, seed=2),
        make_node(root / "n3", ENTRIES[:4], seed=3),
    ]


def test_hours_of_all_nodes_are_listed_once(tmp_path: Path) -> None:
    """Copies of one hour are one part, the longest first; what stands behind a checkpoint counts as well."""
    inventory = Inventory.open(nodes(tmp_path))
    first, second = inventory.hours
    assert (first.hour, first.first, first.units, first.settles) == (HOUR, 0, 6, 2)
    assert [(copy.node, copy.units, copy.sealed_units) for copy in first.copies] == [
        ("n1", 6, 6),
        ("n2", 6, 4),
        ("n3", 4, 4),
    ]
    assert (second.hour, second.units, second.settles) == (HOUR + 1, 1, 1)
    assert [node.name for node in inventory.nodes] == ["n1", "n2", "n3"]
    assert [topic.name for topic in inventory.topics.values()] == ["orders"]
    assert inventory.problems == ()
    assert pickle.loads(pickle.dumps(inventory)) == inventory


def test_a_directory_of_directories_stands_for_all_of_them(tmp_path: Path) -> None:
    """Naming the parent, or a node twice, gives the same inventory as naming each once."""
    paths = nodes(tmp_path)
    one, other = Inventory.open(paths), Inventory.open([tmp_path, paths[1]])
    assert (one.nodes, one.hours, one.deliveries) == (other.nodes, other.hours, other.deliveries)


def test_spans_begin_at_multiples(tmp_path: Path) -> None:
    """Buckets are cut at multiples of their size, whatever an hour's first number is."""
    inventory = Inventory.open(nodes(tmp_path))
    assert inventory.spans(4) == [Span(HOUR, 0, 4), Span(HOUR, 4, 2), Span(HOUR + 1, 0, 1)]
    assert len(inventory.spans(BUCKET_UNITS)) == 2
    assert inventory.part(HOUR, 5) is inventory.hours[0]
    assert inventory.part(HOUR, 6) is None


def test_an_hour_that_was_begun_again_is_another_part(tmp_path: Path) -> None:
    """A node that still has the unlinked hour and one that has the new one: both count, the numbers are disjoint."""
    again: list[Entry] = [*ENTRIES, settle(LEASED, (0, 3)), unlink(0), append(8_000, 8_001)]
    make_node(tmp_path / "old", ENTRIES, seed=1)
    make_node(tmp_path / "new", again, seed=2)
    parts = [(part.hour, part.first, part.units) for part in Inventory.open([tmp_path]).hours]
    assert parts == [(HOUR, 0, 6), (HOUR, 6, 2), (HOUR + 1, 0, 1)]


def test_a_torn_tail_is_no_damage(tmp_path: Path) -> None:
    """What a killed or running node has not written whole is not counted, and not a problem."""
    _, path, _ = nodes(tmp_path)
    index = path / "hours" / str(HOUR) / "index"
    cut(index, HEADER_SIZE + 6 * UNIT.itemsize - 10)
    inventory = Inventory.open([path])
    assert inventory.hours[0].units == 5
    index.write_bytes(index.read_bytes() + bytes(200))
    inventory = Inventory.open([path])
    assert (inventory.hours[0].units, inventory.problems) == (5, ())


def test_less_than_the_checkpoint_says_is_a_problem(tmp_path: Path) -> None:
    """Durable bytes that are gone are named: the file, and how many rows."""
    path, *_ = nodes(tmp_path)
    hour = path / "hours" / str(HOUR)
    cut(hour / "index", HEADER_SIZE + 3 * UNIT.itemsize)
    cut(hour / "settle", HEADER_SIZE + SETTLE.itemsize)
    (path / "hours" / str(HOUR + 1) / "settle").unlink()
    problems = Inventory.open([path]).problems
    assert [(problem.kind, problem.file, problem.rows) for problem in problems if "log" not in problem.file] == [
        (CUT_SHORT, f"hours/{HOUR}/index", 3),
        (CUT_SHORT, f"hours/{HOUR}/settle", 1),
        (MISSING, f"hours/{HOUR + 1}/settle", 1),
    ]
    assert all(problem.node == "n1" for problem in problems)


def test_a_missing_hour_is_named(tmp_path: Path) -> None:
    """The checkpoint names the hour, its directory is gone."""
    path, *_ = nodes(tmp_path)
    shutil.rmtree(path / "hours" / str(HOUR))
    assert [(problem.kind, problem.file, problem.rows) for problem in Inventory.open([path]).problems] == [
        (MISSING, f"hours/{HOUR}", 6)
    ]


def test_a_damaged_header_leaves_the_copy_out(tmp_path: Path) -> None:
    """The copy is named, and the other nodes' are read."""
    path, *_ = nodes(tmp_path)
    flip(path / "hours" / str(HOUR) / "index", 20)
    inventory = Inventory.open([tmp_path])
    assert [copy.node for copy in inventory.hours[0].copies] == ["n2", "n3"]
    assert [(problem.kind, problem.node, problem.file) for problem in inventory.problems] == [
        (DAMAGED, "n1", f"hours/{HOUR}/index")
    ]


def test_a_damaged_catalog_is_a_problem_of_its_node(tmp_path: Path) -> None:
    """Its hours still count, by their own checksums; topics come from the others."""
    path, *_ = nodes(tmp_path)
    (path / "catalog" / "data.mdb").write_bytes(b"not LMDB" * 1024)
    inventory = Inventory.open([tmp_path])
    assert [(problem.kind, problem.node, problem.file) for problem in inventory.problems] == [
        (DAMAGED, "n1", "catalog")
    ]
    assert inventory.hours[0].copies[0].sealed_units == 0
    assert len(inventory.topics) == 1


def test_other_names_are_told(tmp_path: Path) -> None:
    """A file nobody wrote is named, not silently passed over."""
    path, *_ = nodes(tmp_path)
    (path / "hours" / "notes").mkdir()
    (path / "deliveries" / "old.log").write_bytes(b"")
    assert {(problem.kind, problem.file) for problem in Inventory.open([path]).problems} == {
        (FOREIGN, "hours/notes"),
        (FOREIGN, "deliveries/old.log"),
    }


def test_delivery_files_are_listed_with_their_whole_rows(tmp_path: Path) -> None:
    """Oldest first; half a record at the end is not counted, a file without a whole header holds nothing."""
    path, *_ = nodes(tmp_path)
    homes = positions(0, [0, 1, 2])
    log_deliveries(path, term_row(TERM_BEGUN, 1, NOW), hand_overs(homes, [NOW, NOW, NOW]))
    second = log_deliveries(path, hand_overs(homes[:1], [NOW + H]))
    second.write_bytes(second.read_bytes()[:-1])
    (path / "deliveries" / f"{HOUR + 1}-000003.log").write_bytes(bytes(10))
    sources = Inventory.open([path]).deliveries
    assert [(source.node, source.hour, source.sequence, source.rows) for source in sources] == [
        ("n1", HOUR, 1, 7),
        ("n1", HOUR + 1, 2, 1),
    ]


def test_a_delivery_file_that_was_cut_is_a_problem_unless_it_is_the_newest(tmp_path: Path) -> None:
    """The newest may be written just now; one before it ends with a whole record, or something took its end."""
    path = make_node(tmp_path / "n1", ENTRIES)
    logs = [log_deliveries(path, hand_overs(positions(0, [0, 1]), [NOW, NOW + at])) for at in (1, 2, 3)]
    for log, length in zip(logs, (10, HEADER_SIZE + 100, HEADER_SIZE + 100), strict=True):
        cut(log, length)
    found = Inventory.open([path])
    assert [(problem.kind, problem.file) for problem in found.problems] == [
        (CUT_SHORT, f"deliveries/{log.name}") for log in logs[:2]
    ]
    assert [source.rows for source in found.deliveries] == [1, 1]


PAUSES: dict[str, dict[str, Any]] = {
    "never": {},
    "now": {"paused": True, PAUSED_SINCE: NOW - 9},
    "long": {"paused": True},
    "once": {"paused": False, PAUSED_SINCE: NOW - 9, RESUMED_AT: NOW - 5},
}


def test_an_export_knows_the_pauses_of_topics(tmp_path: Path) -> None:
    """Those that last, those that are over, and those whose begin nobody knows, as the directory does."""
    path = make_node(tmp_path / "n1", ENTRIES)
    store = Store.open(path, disk=Disk())
    for name, settings in PAUSES.items():
        store.catalog.put_topic(name, settings, now_ms=NOW)
    checkpoint(store, store.applied_index)
    store.close()
    Export(read_source(path, Disk(), NOW), tmp_path / "exported", Disk()).run()
    for given in (path, tmp_path / "exported"):
        topics = Inventory.open([given]).topics.values()
        pauses = {topic.name: Topic.of(topic.name, topic.settings).pause for topic in topics}
        assert [pauses[name] for name in PAUSES] == [
            (0, 0), (NOW - 9, EVER_MS), (0, EVER_MS), (NOW - 9, NOW - 5),
        ]  # fmt: skip


def test_an_export_is_as_good_as_the_directory(tmp_path: Path) -> None:
    """Same hours, rows and topics; given beside the directory it came from, nothing counts twice."""
    path = make_node(tmp_path / "n1", ENTRIES)
    log_deliveries(path, hand_overs(positions(0, [0]), [NOW]))
    Export(read_source(path, Disk(), NOW), tmp_path / "exported", Disk()).run()
    exported, node = Inventory.open([tmp_path / "exported"]), Inventory.open([path])
    both = Inventory.open([path, tmp_path / "exported"])
    for one in (exported, both):
        assert [(part.hour, part.first, part.units, part.settles) for part in one.hours] == [
            (part.hour, part.first, part.units, part.settles) for part in node.hours
        ]
        assert [(source.sequence, source.rows) for source in one.deliveries] == [(1, 2)]
        assert one.cluster_id == node.cluster_id
        assert {number: topic.name for number, topic in one.topics.items()} == {1: "orders"}
        assert one.problems == ()
    assert [len(part.copies) for part in both.hours] == [2, 2]


def test_an_export_that_was_cut_is_a_problem(tmp_path: Path) -> None:
    """The manifest says how long a file is; one that is shorter is named."""
    path = make_node(tmp_path / "n1", ENTRIES)
    Export(read_source(path, Disk(), NOW), tmp_path / "exported", Disk()).run()
    (index,) = (tmp_path / "exported").glob(f"dt=*/node=n1/hours/{HOUR}/index")
    cut(index, HEADER_SIZE + 2 * UNIT.itemsize)
    inventory = Inventory.open([tmp_path / "exported"])
    assert inventory.hours[0].units == 2
    assert [(problem.kind, problem.node, problem.rows) for problem in inventory.problems] == [
        (CUT_SHORT, "n1", 4 * UNIT.itemsize)
    ]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda root: [], "no data was given"),
        (lambda root: [root / "nowhere"], "there is no such directory"),
        (lambda root: [root / "n1" / "LOCK"], "is not a directory"),
        (lambda root: [root / "n1" / "hours"], "no node's data directory and no export"),
    ],
    ids=["nothing", "missing", "file", "other"],
)
def test_what_is_no_data_is_refused(tmp_path: Path, make: object, says: str) -> None:
    """With the path and the reason."""
    nodes(tmp_path)
    assert callable(make)
    with pytest.raises(DataRefused, match=says):
        Inventory.open(make(tmp_path))


def test_another_version_is_refused_by_name(tmp_path: Path) -> None:
    """A file of a format that this build does not read would leave out what it holds: nothing is judged."""
    path, *_ = nodes(tmp_path)
    index = path / "hours" / str(HOUR) / "index"
    data = bytearray(index.read_bytes())
    data[8] = 2
    data[60:64] = google_crc32c.value(bytes(data[:60])).to_bytes(4, "little")
    index.write_bytes(data)
    with pytest.raises(DataRefused, match=r"index.*version 2; this build supports 1"):
        Inventory.open([tmp_path])


def test_two_clusters_are_refused(tmp_path: Path) -> None:
    """Their ids mean different messages."""
    nodes(tmp_path)
    other = make_node(tmp_path / "other", [])
    store = Store.open(other, disk=Disk())
    store.close()
    log = log_deliveries(tmp_path / "n1", hand_overs(positions(0, [0]), [NOW]))
    moved = other / "deliveries" / log.name
    shutil.copy(log, moved)
    data = bytearray(moved.read_bytes())
    data[30] ^= 1
    data[60:64] = google_crc32c.value(bytes(data[:60])).to_bytes(4, "little")
    moved.write_bytes(data)
    with pytest.raises(DataRefused, match="of 2 clusters"):
        Inventory.open([tmp_path])


def test_a_directory_without_lock_goes_by_its_name(tmp_path: Path) -> None:
    """A copy of hours and deliveries alone is read; two of one name could not be told apart."""
    path, other, _ = nodes(tmp_path / "a")
    (path / "LOCK").unlink()
    assert [node.name for node in Inventory.open([path]).nodes] == ["n1"]
    twin = tmp_path / "b" / "n1"
    shutil.copytree(path, twin)
    with pytest.raises(DataRefused, match="n1 was given twice, without LOCK"):
        Inventory.open([path, twin, other])


def test_a_running_node_is_read_beside_itself(tmp_path: Path) -> None:
    """The catalog is open in its node's process, and another one reads it; what was appended meanwhile counts."""
    path = make_node(tmp_path / "n1", ENTRIES)
    store = Store.open(path, disk=Disk())
    try:
        store.turn(HOUR)
        append(9_000)(store)
        program = (
            "import sys; from reconcile.files.inventory import Inventory; found = Inventory.open(sys.argv[1:]); "
            "print(found.hours[0].units, found.hours[0].sealed_units, len(found.topics), len(found.problems))"
        )
        said = subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True, text=True)
        assert said.stdout.split() == ["7", "6", "1", "0"]
        append(9_001)(store)
    finally:
        store.close()


def test_an_hour_that_is_unlinked_meanwhile_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between reading a running node's checkpoint and listing its hours another checkpoint may have removed one."""
    path = make_node(tmp_path / "n1", ENTRIES)
    before = read_node(path)
    store = Store.open(path, disk=Disk())
    store.turn(HOUR)
    unlink(0)(store)
    checkpoint(store, len(ENTRIES) + 1)
    store.close()
    reads = iter([before])
    monkeypatch.setattr("reconcile.files.inventory.read_node", lambda path: next(reads, None) or read_node(path))
    inventory = Inventory.open([path])
    assert [part.hour for part in inventory.hours] == [HOUR + 1]
    assert inventory.problems == ()
