"""From a backup to a cluster that serves: what is restored, what became overdue, who may join."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from api.port.port import ANONYMOUS, MessageIn, PullIn
from api.port.problem import Problem
from api.port.queries import DeadQuery
from cli.main import main
from node.leader import restored_overdue
from node.node import Node
from node.runtime.exit_code import ExitCode
from storage.catalog.catalog import Catalog
from storage.file.disk import Disk
from storage.tables.overdue import OverdueRule
from tests.node.operation.redriving import redrive
from tests.node.single_node import run_node


def hourwheel(*arguments: str | Path) -> tuple[int, str]:
    """Run the command: exit code, and what it said."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


async def schedule(node: Node, topic: str, count: int, *, delay_ms: int) -> list[str]:
    """Messages that are due then; their ids."""
    sent = [MessageIn(topic=topic, body=b"%d" % number, delay_ms=delay_ms) for number in range(count)]
    return [id.decode() for id in (await node.front.schedule(sent, ANONYMOUS)).ids.tolist()]


async def pull(node: Node, topic: str, most: int, *, wait_ms: int = 0) -> dict[str, str]:
    """Receipts by id of what is handed over."""
    found = await node.front.pull(PullIn(topic=topic, max=most, wait_ms=wait_ms), ANONYMOUS)
    return {one.id: one.receipt for one in found}


class Backed:
    """A cluster that was backed up: `path`, and the ids of its messages by topic."""

    def __init__(self, directory: Path) -> None:
        self.path = Path()
        self.old: list[str] = []
        self.recent: list[str] = []
        self.later: list[str] = []
        self.leased: dict[str, str] = {}
        self.term = 0
        self.handed_over: dict[str, tuple[int, int]] = {}  # and acked, after the backup
        self.lost: list[str] = []  # scheduled after the backup
        self.boundary_ms = 0  # the old ones were due before, the recent ones after
        run_node(directory / "old", self._play)

    async def _play(self, node: Node) -> None:
        self.leased = dict.fromkeys(await schedule(node, "held", 2, delay_ms=0), "")
        self.leased = await pull(node, "held", 2, wait_ms=2_000)
        self.old = await schedule(node, "orders", 3_000, delay_ms=200)
        self.boundary_ms = node.front.now_ms() + 300
        self.recent = await schedule(node, "orders", 5, delay_ms=400)
        self.later = await schedule(node, "orders", 3, delay_ms=3_600_000)
        self.term = node.group.raft.term
        self.path = Path((await node.front.snapshot(None)).directory)
        self.lost = await schedule(node, "orders", 2, delay_ms=300)
        again = await node.front.pull(PullIn(topic="orders", max=20, wait_ms=2_000), ANONYMOUS)
        self.handed_over = {one.id: (one.term, one.attempt) for one in again}
        await node.front.ack("orders", [one.receipt for one in again], ANONYMOUS)


@pytest.fixture(scope="module")
def backed(tmp_path_factory: pytest.TempPathFactory) -> Backed:
    """One for all tests; by the time they restore it all but the later messages are overdue."""
    return Backed(tmp_path_factory.mktemp("backed"))


async def drained(node: Node) -> dict[str, str]:
    """All that is handed over of the topic until nothing comes."""
    found: dict[str, str] = {}
    while more := await pull(node, "orders", 1_000, wait_ms=300):
        found |= more
    return found


async def caught_up(node: Node) -> None:
    """Until the entry that says so is applied."""
    catalog, done = node.group.store.catalog, asyncio.Event()
    told = catalog.set_overdue_rule

    def set_overdue_rule(rule: OverdueRule | None) -> None:
        told(rule)
        if rule is None:
            done.set()

    catalog.set_overdue_rule = set_overdue_rule  # type: ignore[method-assign]
    if catalog.overdue_rule is not None:
        await asyncio.wait_for(done.wait(), 20)


async def dead_ids(node: Node) -> tuple[set[str], set[str]]:
    """(ids, reasons) of the dead messages, waited for until the catch-up is done."""
    await caught_up(node)
    ids: set[str] = set()
    reasons: set[str] = set()
    cursor: str | None = None
    while True:
        page = await node.front.dead(DeadQuery(topic="orders", limit=1_000, cursor=cursor), principal=ANONYMOUS)
        ids |= {one.id for one in page.items}
        reasons |= {one.reason for one in page.items}
        cursor = page.next_cursor
        if cursor is None:
            return ids, reasons


def restored(backed: Backed, directory: Path, *more: str) -> dict[str, object]:
    """Restore as n1; what the command says."""
    code, said = hourwheel("restore", backed.path, "--data-dir", directory, "--node-id", "n1", "-o", "json", *more)
    assert code == 0, said
    document: dict[str, object] = json.loads(said)
    return document


def test_everything_that_is_overdue(backed: Backed, tmp_path: Path) -> None:
    """By default all of it is handed over, under the old ids and in a term far above the old cluster's; a consumer that
    held a message when the backup was made may still ack it; what is due later waits."""
    said = restored(backed, tmp_path / "data")
    assert said["units"] == 2 + len(backed.old) + len(backed.recent) + len(backed.later)
    assert said["cluster_id"] != said["restored_cluster_id"]

    async def play(node: Node) -> None:
        assert node.group.store.cluster_id is not None
        assert node.group.store.cluster_id.hex() == said["cluster_id"]
        assert node.group.raft.term > backed.term + 1_000_000
        assert set(await drained(node)) == {*backed.old, *backed.recent}
        assert set(await node.front.ack("held", list(backed.leased.values()), ANONYMOUS)) == {"acked"}
        (later,) = {(await node.front.message(id, local=False, principal=ANONYMOUS)).state for id in backed.later}
        assert later == "scheduled"
        assert await schedule(node, "orders", 1, delay_ms=0)
        assert len(await pull(node, "orders", 1, wait_ms=2_000)) == 1

    run_node(tmp_path / "data", play)


def test_what_the_old_cluster_did_after_the_backup(backed: Backed, tmp_path: Path) -> None:
    """What it handed over comes again, under the same id and with a higher (term, attempt), so that a receiver can
    tell; what it took in is not known; nothing comes that was never scheduled, and nothing twice."""
    restored(backed, tmp_path / "data")
    assert backed.handed_over

    async def play(node: Node) -> None:
        found: dict[str, tuple[int, int]] = {}
        while more := await node.front.pull(PullIn(topic="orders", max=1_000, wait_ms=300), ANONYMOUS):
            assert not found.keys() & {one.id for one in more}
            found |= {one.id: (one.term, one.attempt) for one in more}
        assert found.keys() == {*backed.old, *backed.recent}
        assert all(found[id] > before for id, before in backed.handed_over.items())
        for id in backed.lost:
            with pytest.raises(Problem, match="unknown-message"):
                await node.front.message(id, local=False, principal=ANONYMOUS)

    run_node(tmp_path / "data", play)


def test_nothing_that_is_overdue(backed: Backed, tmp_path: Path) -> None:
    """With none, what became overdue is dead, reason `restored`, and none of it is handed over; what is
    new is, meanwhile."""
    restored(backed, tmp_path / "data", "--catch-up", "none")

    async def play(node: Node) -> None:
        fresh = await schedule(node, "orders", 1, delay_ms=0)
        assert set(await pull(node, "orders", 10, wait_ms=2_000)) == set(fresh)
        assert await dead_ids(node) == ({*backed.old, *backed.recent}, {"restored"})
        assert not await drained(node)
        assert set(await node.front.ack("held", list(backed.leased.values()), ANONYMOUS)) == {"acked"}
        assert (await redrive(node, "orders", dry_run=True)).matched == 0, "they were given up on purpose"
        again = await redrive(node, "orders", reason="restored")
        assert again.changed == len(backed.old) + len(backed.recent)
        assert set(await drained(node)) == {*backed.old, *backed.recent}, "given up like any other, and redriven"

    run_node(tmp_path / "data", play)

    async def second(node: Node) -> None:
        assert node.group.store.catalog.overdue_rule is None, "done once"

    run_node(tmp_path / "data", second)


def test_the_last_moments(backed: Backed, tmp_path: Path) -> None:
    """With last=..., counted from the first leader's clock, the rest is dead; long enough, and nothing is."""
    restored(backed, tmp_path / "data", "--catch-up", "last=1h")

    async def play(node: Node) -> None:
        assert await dead_ids(node) == (set(), set())
        assert set(await drained(node)) == {*backed.old, *backed.recent}

    run_node(tmp_path / "data", play)


def test_only_what_was_due_before_the_moment(backed: Backed, tmp_path: Path) -> None:
    """A leader that finds the moment fixed gives up what was due before it, to the millisecond, and hands over the
    rest."""
    restored(backed, tmp_path / "data", "--catch-up", "last=1h")
    catalog = Catalog.open(tmp_path / "data" / "catalog", Disk())
    assert catalog.record is not None
    catalog.set_overdue_rule(OverdueRule(last_ms=3_600_000, cutoff_ms=backed.boundary_ms))
    frozen = catalog.begin(catalog.record)
    frozen.commit()
    catalog.finish(frozen)
    catalog.close()

    async def play(node: Node) -> None:
        assert await dead_ids(node) == (set(backed.old), {"restored"})
        assert set(await drained(node)) == set(backed.recent)

    run_node(tmp_path / "data", play)


def test_stopped_while_it_gives_up(backed: Backed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment stays the one that the first leader fixed: the next one goes on with it, and what became due between
    the two is handed over."""
    restored(backed, tmp_path / "data", "--catch-up", "none")
    fixed: list[int | None] = []
    between: list[str] = []

    async def first(node: Node) -> None:
        between.extend(await schedule(node, "orders", 4, delay_ms=300))
        row = node.group.store.catalog.overdue_rule
        assert row is not None
        fixed.append(row.cutoff_ms)

    with monkeypatch.context() as slow:
        slow.setattr(restored_overdue, "PAUSE_S", 60)
        run_node(tmp_path / "data", first)
    assert fixed[0] is not None

    async def second(node: Node) -> None:
        row = node.group.store.catalog.overdue_rule
        assert row is None or row.cutoff_ms == fixed[0]
        ids, reasons = await dead_ids(node)
        assert (ids, reasons) == ({*backed.old, *backed.recent}, {"restored"})
        handed = await drained(node)
        assert set(handed) == set(between)

    run_node(tmp_path / "data", second)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--catch-up", "some"], ExitCode.USAGE, "all, last=DURATION or none"),
        (["--catch-up", "last=soon"], ExitCode.USAGE, "soon"),
        (["--node-id", "n 1"], ExitCode.USAGE, "1 to 64 letters"),
        (["--raft", "nowhere"], ExitCode.USAGE, "HOST:PORT is expected"),
        (["--node-id", "n7"], ExitCode.DATA, "no address of n7"),
    ],
)
def test_bad_calls(backed: Backed, tmp_path: Path, arguments: list[str], code: ExitCode, says: str) -> None:
    """A clear sentence each, and nothing is made."""
    call: list[str | Path] = ["restore", backed.path, "--data-dir", tmp_path / "data", "--node-id", "n1", *arguments]
    found, said = hourwheel(*call)
    assert found == code, said
    assert says in said
    assert not (tmp_path / "data").exists()


def test_verify_reads_a_backup(backed: Backed, tmp_path: Path) -> None:
    """As it does a data directory, digest too; a damaged one has exit code 11, and restore says the same."""
    code, said = hourwheel("verify", backed.path, "-o", "json")
    assert code == 0, said
    assert json.loads(said)["sound"]
    restored(backed, tmp_path / "data")
    digests = [hourwheel("verify", "--digest", path, "-o", "json")[0] for path in (backed.path, tmp_path / "data")]
    assert digests == [0, 0]
    code, said = hourwheel("restore", tmp_path / "data", "--data-dir", tmp_path / "new", "--node-id", "n1")
    assert (code, "a data directory, no backup" in said) == (ExitCode.DATA, True)
    code, said = hourwheel("restore", backed.path, "--data-dir", tmp_path / "data", "--node-id", "n1")
    assert (code, "is not empty" in said) == (ExitCode.DATA, True)
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "MANIFEST").write_bytes(b"HWSNAP")
    code, said = hourwheel("verify", damaged)
    assert code == ExitCode.DATA, said
    unfinished = tmp_path / "killed.part"
    (unfinished / "hours").mkdir(parents=True)
    for arguments in ([], ["--digest"]):
        code, said = hourwheel("verify", unfinished, *arguments)
        assert code == ExitCode.DATA, said
        assert arguments or "a backup that was never finished" in said
