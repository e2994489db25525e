"""The catalog against plain dicts, over checkpoints, crashes and flipped bits."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from storage.catalog.catalog import Catalog, Frozen
from storage.catalog.checkpoint_record import CheckpointRecord
from storage.catalog.genesis import Genesis
from storage.file.disk import Disk, DiskFailed
from storage.format.position import pack
from storage.tables.key import KeyEntry
from storage.tables.topic import Topic
from tests.examples import examples

GENESIS = Genesis(
    cluster_id=bytes(range(16)),
    secret=b"s" * 32,
    nodes=("n1", "n2", "n3"),
    formats={"hour": 1},
    created_ms=7,
    retention_ms=1000,
    key_retention_ms=2000,
)


def record(applied_index: int) -> CheckpointRecord:
    """A checkpoint record of this index."""
    return CheckpointRecord(
        applied_index=applied_index, applied_term=1, tick=0, local_index=0, state_applied_index=0, max_now_ms=0
    )


def entry(position: int, seed: int = 1) -> KeyEntry:
    """A key's entry at this position."""
    return KeyEntry(position, seed, bytes([seed]) * 16, 1000 + seed)


def checkpoint(catalog: Catalog, applied_index: int) -> None:
    """One whole checkpoint."""
    frozen = catalog.begin(record(applied_index))
    frozen.commit()
    catalog.finish(frozen)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A new catalog."""
    catalog = Catalog.open(tmp_path / "catalog", Disk())
    yield catalog
    catalog.close()


class Model:
    """What a catalog should hold."""

    def __init__(self) -> None:
        self.topics: dict[int, Topic] = {}
        self.next_number = 1
        self.keys: dict[tuple[int, bytes], KeyEntry] = {}

    def copy(self) -> "Model":
        """A copy that does not change with this one."""
        model = Model()
        model.topics, model.next_number, model.keys = dict(self.topics), self.next_number, dict(self.keys)
        return model


NAMES = st.sampled_from(["a", "b", "orders.eu"])
KEYS = st.sampled_from([b"", b"k", b"k\x00", b"\xff" * 128, b"longer"])


class CatalogMachine(RuleBasedStateMachine):
    """Random changes, checkpoints in both halves, and crashes at every point between."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "catalog"
        self.catalog = Catalog.open(self.path, Disk())
        self.model = Model()
        self.durable = Model()
        self.durable_index = 0
        self.frozen: tuple[Frozen, Model] | None = None
        self.index = 0

    def teardown(self) -> None:
        """Let go of the files."""
        self.catalog.close()
        self.directory.cleanup()

    @rule(name=NAMES, setting=st.integers(0, 2), namespace=st.sampled_from(["default", "other"]))
    def put_topic(self, name: str, setting: int, namespace: str) -> None:
        """Create or change a topic."""
        settings = {"lease": setting} if setting else {}
        topic = self.catalog.put_topic(name, settings, 5, namespace)
        old = next((t for t in self.model.topics.values() if (t.namespace, t.name) == (namespace, name)), None)
        if old is None:
            assert (topic.number, topic.revision) == (self.model.next_number, 1)
            self.model.next_number += 1
        else:
            changed = old.settings != settings
            assert (topic.number, topic.revision) == (old.number, old.revision + changed)
        self.model.topics[topic.number] = topic

    @precondition(lambda self: self.model.topics)
    @rule(data=st.data())
    def drop_topic(self, data: st.DataObject) -> None:
        """Remove a topic; its number stays used."""
        number = data.draw(st.sampled_from(sorted(self.model.topics)))
        self.catalog.drop_topic(number)
        del self.model.topics[number]

    @rule(topic=st.integers(1, 3), key=KEYS, hour=st.integers(0, 3), seed=st.integers(0, 255))
    def put_key(self, topic: int, key: bytes, hour: int, seed: int) -> None:
        """Set a key, perhaps over an older message of another hour."""
        self.model.keys[topic, key] = entry(pack(hour, seed), seed)
        self.catalog.put_key(topic, key, self.model.keys[topic, key])

    @rule(hour=st.integers(0, 3))
    def drop_hour_keys(self, hour: int) -> None:
        """Unlink an hour: its keys go, and only they."""
        gone = [name for name, held in self.model.keys.items() if held.position >> 40 == hour]
        assert self.catalog.drop_hour_keys(hour) == len(gone)
        for name in gone:
            del self.model.keys[name]

    @precondition(lambda self: self.frozen is None)
    @rule()
    def begin(self) -> None:
        """Set the changes aside."""
        self.index += 1
        self.frozen = (self.catalog.begin(record(self.index)), self.model.copy())
        assert self.catalog.changes == 0

    @precondition(lambda self: self.frozen is not None and not self.frozen[0].committed)
    @rule()
    def commit(self) -> None:
        """Write them, in a thread."""
        assert self.frozen is not None
        frozen, model = self.frozen
        thread = threading.Thread(target=frozen.commit)
        thread.start()
        thread.join()
        assert frozen.committed
        self.durable, self.durable_index = model, self.index

    @precondition(lambda self: self.frozen is not None and self.frozen[0].committed)
    @rule()
    def finish(self) -> None:
        """Read from the new checkpoint."""
        assert self.frozen is not None
        self.catalog.finish(self.frozen[0])
        self.frozen = None
        assert self.catalog.faults() == []

    @rule()
    def crash(self) -> None:
        """Stop anywhere: exactly the last checkpoint whose commit returned is there, count and hash included."""
        self.catalog.close()
        self.catalog = Catalog.open(self.path, Disk())
        self.model, self.frozen, self.index = self.durable.copy(), None, self.durable_index
        found = self.catalog.record
        assert (0 if found is None else found.applied_index) == self.durable_index
        assert self.catalog.faults() == []

    @invariant()
    def equal(self) -> None:
        """All that can be read is what the model says."""
        assert self.catalog.topics() == [self.model.topics[number] for number in sorted(self.model.topics)]
        for topic in self.model.topics.values():
            assert self.catalog.topic(topic.name, topic.namespace) == topic
            assert self.catalog.topic_by_number(topic.number) == topic
        assert self.catalog.topic_count == len(self.model.topics)
        with_settings = sorted(self.catalog.topics_with_settings(), key=lambda topic: topic.number)
        assert with_settings == [topic for topic in self.catalog.topics() if topic.settings]
        for namespace in ("default", "other"):
            rest = sorted(each.name for each in self.model.topics.values() if each.namespace == namespace)
            after, found = "", list[str]()
            while page := self.catalog.topic_page(after, 2, namespace):
                assert {topic.namespace for topic in page} == {namespace}
                found += [topic.name for topic in page]
                after = found[-1]
            assert found == rest
        names = [(topic, key) for topic in range(1, 4) for key in (b"", b"k", b"k\x00", b"\xff" * 128, b"longer")]
        assert [self.catalog.key(*name) for name in names] == [self.model.keys.get(name) for name in names]
        rows = list(self.catalog.dump())
        order = [b"meta", b"topics", b"keys", b"hour_keys"]
        assert rows == sorted(rows, key=lambda row: (order.index(row[0]), row[1]))
        assert len([row for row in rows if row[0] == b"hour_keys"]) == len(self.model.keys)


CatalogMachine.TestCase.settings = examples(100, stateful_step_count=40)
TestCatalogAgainstDicts: Any = CatalogMachine.TestCase


def test_dump_does_not_depend_on_history(tmp_path: Path) -> None:
    """Two catalogs with the same content dump the same, however their changes were spread over checkpoints."""
    one, other = Catalog.open(tmp_path / "one", Disk()), Catalog.open(tmp_path / "other", Disk())
    for catalog, every in ((one, 1), (other, 50)):
        for index in range(1, 101):
            catalog.put_topic(f"t{index % 7}", {"lease": index, "a": {"z": 1, "b": 2}}, index)
            catalog.put_key(1, b"%d" % (index % 13), entry(pack(index % 3, index)))
            if index % every == 0:
                checkpoint(catalog, index)
    assert list(one.dump()) == list(other.dump())
    assert one.record is not None
    assert other.record is not None
    assert one.record.catalog_hash == other.record.catalog_hash
    one.close()
    other.close()


def test_genesis_is_kept_and_given_once(tmp_path: Path) -> None:
    """The cluster is founded once; a second genesis breaks an invariant; it is there after reopening."""
    catalog = Catalog.open(tmp_path / "catalog", Disk())
    assert catalog.genesis is None
    catalog.found(GENESIS)
    with pytest.raises(AssertionError):
        catalog.found(GENESIS)
    checkpoint(catalog, 1)
    catalog.close()
    catalog = Catalog.open(tmp_path / "catalog", Disk())
    assert catalog.genesis == GENESIS
    catalog.close()


def test_settings_do_not_change_with_the_callers_dict(catalog: Catalog) -> None:
    """A topic's settings are a copy: changing the dict that was given changes nothing."""
    given: dict[str, Any] = {"retry": {"max_attempts": 3}}
    catalog.put_topic("a", given, 1)
    given["retry"]["max_attempts"] = 4
    topic = catalog.topic("a")
    assert topic is not None
    assert topic.settings == {"retry": {"max_attempts": 3}}


def test_one_checkpoint_at_a_time(catalog: Catalog) -> None:
    """A second begin before the first is finished, a finish before the commit, an index that goes back: refused."""
    checkpoint(catalog, 5)
    with pytest.raises(AssertionError):
        catalog.begin(record(4))
    frozen = catalog.begin(record(6))
    with pytest.raises(AssertionError):
        catalog.begin(record(7))
    with pytest.raises(AssertionError):
        catalog.finish(frozen)


def test_what_a_checkpoint_took_along_is_there_meanwhile(catalog: Catalog) -> None:
    """Between begin and finish rows are in LMDB or on the way there: each is found, and what is newer counts."""
    for name in (b"a", b"b", b"c"):
        catalog.put_key(1, name, entry(1))
    frozen = catalog.begin(record(1))
    catalog.put_key(1, b"b", entry(2))
    catalog.put_key(1, b"d", entry(3))

    def held() -> list[int]:
        found = [catalog.key(1, name) for name in (b"a", b"b", b"c", b"d")]
        return [each.position for each in found if each is not None]

    assert held() == [1, 2, 1, 3]
    frozen.commit()
    assert held() == [1, 2, 1, 3]
    catalog.finish(frozen)
    assert held() == [1, 2, 1, 3]


CHILD = """
import os, sys
from pathlib import Path
import storage.catalog.catalog as module
from storage.file.disk import Disk
from tests.storage.catalog.test_catalog import checkpoint, entry

catalog = module.Catalog.open(Path(sys.argv[1]), Disk())
catalog.put_key(1, b"old", entry(1))
checkpoint(catalog, 1)
catalog.put_key(1, b"new", entry(2))
catalog.drop_hour_keys(0)
catalog.put_key(2, b"new", entry(3))
write = module.write_checkpoint
def stop_before(*arguments):
    os._exit(3)
def stop_inside(*arguments):
    write(*arguments)
    os._exit(3)
if sys.argv[2] != "after":
    module.write_checkpoint = {"before": stop_before, "inside": stop_inside}[sys.argv[2]]
from tests.storage.catalog.test_catalog import record
catalog.begin(record(2)).commit()
os._exit(3)
"""


@pytest.mark.parametrize(("stop", "index", "rows"), [("before", 1, 2), ("inside", 1, 2), ("after", 2, 2)])
def test_a_killed_process_leaves_one_checkpoint_or_the_other(tmp_path: Path, stop: str, index: int, rows: int) -> None:
    """A process that dies within the transaction leaves the old record with the old rows; after it, the new ones."""
    path = tmp_path / "catalog"
    child = subprocess.run([sys.executable, "-c", CHILD, str(path), stop], env={**os.environ}, check=False)
    assert child.returncode == 3
    catalog = Catalog.open(path, Disk())
    assert catalog.record is not None
    assert catalog.record.applied_index == index
    assert catalog.faults() == []
    assert (catalog.key(1, b"old") is not None) == (index == 1)
    assert (catalog.key(2, b"new") is not None) == (index == 2)
    assert len(list(catalog.dump())) == rows
    catalog.close()


def test_a_failed_commit_is_final(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of LMDB in the commit is DiskFailed, and the checkpoint cannot be finished."""

    def fail(*_: object) -> None:
        raise lmdb.DiskError("mdb_txn_commit", 5)

    monkeypatch.setattr("storage.catalog.catalog.write_checkpoint", fail)
    frozen = catalog.begin(record(1))
    with pytest.raises(DiskFailed, match="lmdb commit"):
        frozen.commit()
    assert not frozen.committed
    with pytest.raises(AssertionError):
        catalog.finish(frozen)


def test_a_commit_is_synced(catalog: Catalog) -> None:
    """The environment syncs data and meta page at each commit, and does not write through its mapping."""
    flags = catalog._environment.flags()
    assert flags["sync"]
    assert flags["metasync"]
    assert not flags["writemap"]
