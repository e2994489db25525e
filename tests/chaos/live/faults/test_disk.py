"""Faults of disks: what they do to a node's files and control file, who is told to have found it, and what is left."""

import asyncio
import errno
import os
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from chaos.cluster.faulty_disk import FaultyDisk
from chaos.history.event import Crashed
from chaos.history.history import History
from chaos.live.faults import disk as disk_faults
from chaos.live.faults.disk import OLD_COPY, DiskFaults
from chaos.live.faults.loop_disk import LoopDisk, Unsynced
from chaos.live.faults.nemesis import LiveNemesis
from chaos.live.faults.process import ProcessFaults
from chaos.plan.fault_plan import FaultPlan
from node.runtime.exit_code import ExitCode
from storage.directory.verify import UNWRITTEN
from tests.chaos.live.faults.pretended import Machines
from tests.waiting import until


class Disks(Machines):
    """Machines with files: a journal, an hour and a log of hand-overs each."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.disks = FaultyDisk(directory)
        self.kept: list[str] = []
        self.off: set[str] = set()
        """Nodes whose disk has no power."""
        self.touched = threading.Event()
        """Files of one of those were touched."""
        for node in self.nodes.values():
            for name in ("journal/1.seg", "hours/494000/index", "deliveries/494000-000001.log", "catalog/data.mdb"):
                path = node.data_path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"x" * 9_000)
            node.log_path.write_bytes(b"")

    def keep_deliveries(self, name: str, *, last: bool = False) -> None:
        """See Cluster."""
        self.touch(name)
        self.kept.append(name)

    def wipe(self, name: str) -> None:
        """See Cluster."""
        self.touch(name)
        super().wipe(name)

    def touch(self, name: str) -> None:
        """What any use of files does."""
        if name in self.off:
            self.touched.set()
            raise OSError(errno.EIO, "without power")

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str, timeout_s: float, poll_s: float) -> None:
        """See Cluster."""
        await until(condition, timeout_s, what)


Meanwhile = Callable[[Disks, LiveNemesis], Awaitable[None]]


async def nothing(machines: Disks, nemesis: LiveNemesis) -> None:
    """Nothing happens while the fault is on."""


class Loop(LoopDisk):
    """A disk without power until `struck_s` are over: so long what touches its files meanwhile gets EIO."""

    struck_s = 0.2

    def __init__(self, machines: Disks, name: str) -> None:
        super().__init__(Path("image"), Path(name))
        self._machines, self._name = machines, name

    def cut_power(self, unsynced: Unsynced = "lost") -> None:
        """See LoopDisk."""
        self._machines.off.add(self._name)

    def power_on(self) -> None:
        """See LoopDisk."""
        self._machines.touched.wait(self.struck_s)
        self._machines.off.discard(self._name)

    def fill(self, left_bytes: int) -> None:
        """See LoopDisk."""
        self._machines.touch(self._name)

    def empty(self) -> None:
        """See LoopDisk."""
        self._machines.touch(self._name)


async def struck(
    directory: Path, line: str, meanwhile: Meanwhile = nothing, *, loops: bool = False
) -> tuple[DiskFaults, Disks, History]:
    """One fault put on at once, the run healed when it is over."""
    machines, history = Disks(directory), History()
    plan = FaultPlan.parse(f"plan seed=1 nodes=3 seconds=20\n{line}", "live")
    async with LiveNemesis(machines.cluster(), history, plan) as nemesis:
        own = {name: Loop(machines, name) for name in machines.nodes if loops}
        faults = DiskFaults(nemesis, own, "" if loops else "loop devices")
        nemesis.register(ProcessFaults(nemesis), faults)
        running = asyncio.create_task(nemesis.run())
        await meanwhile(machines, nemesis)
        await running
        await nemesis.heal()
        await faults.heal()
        machines.log.append(f"not run {nemesis.not_run}")
    return faults, machines, history


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Verify finds nothing, unless a test says otherwise; nodes meet damage soon."""
    sound = subprocess.CompletedProcess[str]([], 0, "")
    monkeypatch.setattr(disk_faults, "verify_command", lambda data: sound)
    monkeypatch.setattr(disk_faults, "MEETS_S", 0.02)
    monkeypatch.setattr(disk_faults, "LOOK_S", 0.01)


@pytest.mark.parametrize(("file", "end"), [("journal", ExitCode.DATA), ("catalog", -signal.SIGABRT)])
def test_a_damage_that_its_node_finds(tmp_path: Path, file: str, end: int) -> None:
    """The node is killed, damaged, started; it ends with 11, or LMDB ends it, is explained, gets an empty disk, and
    starts again."""

    async def find(machines: Disks, nemesis: LiveNemesis) -> None:
        while machines.log != ["end n2 -9", "start n2"]:
            await nemesis.lasts(0.001)
        machines.end("n2", end)

    faults, machines, history = asyncio.run(struck(tmp_path, f"0 flip n2 for=0.01 at=0.5 file={file}", find))
    assert machines.log[:5] == ["end n2 -9", "start n2", f"end n2 {end:d}", "wipe n2", "start n2"]
    assert [(event.node, event.expected) for event in history.of(Crashed)] == [("n2", True)]
    assert [damage.found_by for damage in faults.damages] == [["its node"]]
    assert (machines.kept, faults.broken) == (["n2"], [])


def test_an_end_by_lmdb_is_explained_by_a_damaged_catalog_alone(tmp_path: Path) -> None:
    """A signal that anything else brought is a violation."""

    async def abort(machines: Disks, nemesis: LiveNemesis) -> None:
        await until(lambda: machines.log == ["end n2 -9", "start n2"])
        machines.end("n2", -signal.SIGABRT)

    _, _, history = asyncio.run(struck(tmp_path, "0 flip n2 for=0.01 at=0.5 file=journal", abort))
    assert [(event.node, event.expected) for event in history.of(Crashed)] == [("n2", False)]


def test_a_damaged_disk_is_not_emptied_before_its_node_has_met_the_damage(tmp_path: Path) -> None:
    """Run 2101: a cut journal was emptied before its node had started on it, and counted as found by nobody."""

    async def wipe_then_find(machines: Disks, nemesis: LiveNemesis) -> None:
        await until(lambda: nemesis.fired["wipe"] or nemesis.passed["wipe"])
        assert nemesis.reasons == {"wipe: whether n2 finds what is damaged on its disk is not known yet": 1}
        await until(lambda: machines.log[-1] == "start n2")
        machines.end("n2", ExitCode.DATA)

    lines = "0 truncate n2 for=0.2 at=0.5 file=journal\n0.1 wipe n2 for=0.01"
    faults, machines, _ = asyncio.run(struck(tmp_path, lines, wipe_then_find))
    assert (faults.broken, [damage.found_by for damage in faults.damages]) == ([], [["its node"]])
    assert machines.log.count("wipe n2") == 1


def test_a_damage_that_nobody_finds_is_a_violation(tmp_path: Path) -> None:
    """The node lives on it for a while; then it is looked at, told of, and the node gets an empty disk."""
    faults, machines, _ = asyncio.run(struck(tmp_path, "0 zero n2 for=0.01 at=0.5 file=hours"))
    assert machines.log[:5] == ["end n2 -9", "start n2", "end n2 -9", "wipe n2", "start n2"]
    assert faults.broken == ["n2: a page of 494000/index at 4096, 4096 bytes: found by nobody"]


def test_a_damage_in_a_directory_that_a_kill_left_harms_nobody(tmp_path: Path) -> None:
    """Seed 990109: the checkpoint did not name the hour yet, so the start began it anew beside what was damaged."""

    async def begin_anew(machines: Disks, nemesis: LiveNemesis) -> None:
        while machines.log != ["end n2 -9", "start n2"]:
            await nemesis.lasts(0.001)
        (machines.nodes["n2"].data_path / "hours/494000.1").mkdir()

    faults, _, _ = asyncio.run(struck(tmp_path, "0 zero n2 for=0.01 at=0.5 file=hours", begin_anew))
    assert faults.broken == []
    assert "began the hour anew" in faults.damages[0].harmless


def test_a_page_of_the_catalog_may_mean_nothing(tmp_path: Path) -> None:
    """LMDB has pages that nothing refers to: told of, and no violation; so is what the node wrote anew."""
    faults, _, _ = asyncio.run(struck(tmp_path / "a", "0 zero n2 for=0.01 at=0.5 file=catalog"))
    assert (faults.broken, faults.damages[0].harmless) == ([], "a page that nothing refers to")

    async def mend(machines: Disks, nemesis: LiveNemesis) -> None:
        while machines.log != ["end n2 -9", "start n2"]:
            await nemesis.lasts(0.001)
        (machines.nodes["n2"].data_path / "journal/1.seg").write_bytes(b"x" * 9_000)

    faults, _, _ = asyncio.run(struck(tmp_path / "b", "0 truncate n2 for=0.01 at=0.5 file=journal", mend))
    assert (faults.broken, "anew" in faults.damages[0].harmless) == ([], True)


@pytest.mark.parametrize(("fault", "broken"), [("truncate", False), ("zero", True)])
def test_the_end_of_a_log_of_hand_overs_may_go(tmp_path: Path, fault: str, broken: bool) -> None:
    """Of a file that is written and not synced (seed 2101); a damaged record has to be found."""
    faults, _, _ = asyncio.run(struck(tmp_path, f"0 {fault} n2 for=0.01 at=0.5 file=deliveries"))
    assert bool(faults.broken) is broken
    assert ("not synced" in faults.damages[0].harmless) is not broken


@pytest.mark.parametrize("fault", ["truncate", "flip"])
def test_a_node_that_had_not_caught_up_promised_nothing(tmp_path: Path, fault: str) -> None:
    """Seeds 990107, 990115: of an emptied disk the last record of the journal is cut off, or loses a bit: a term
    without a vote. That nobody finds it is no violation; of a disk that others rely on it is."""
    line = f"0.1 {fault} n2 for=0.01 at=0.5 file=journal"
    faults, _, _ = asyncio.run(struck(tmp_path / "a", line))
    assert ["found by nobody" in line for line in faults.broken] == [True]

    async def emptied(machines: Disks, nemesis: LiveNemesis) -> None:
        async with nemesis.doubt("n2"):
            machines.learners = {"n2"}

    faults, _, _ = asyncio.run(struck(tmp_path / "b", line, emptied))
    assert faults.broken == []
    assert "had not caught up" in faults.damages[0].harmless


def test_verify_is_asked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says of the damaged files counts as found, whatever the node does."""
    damaged = subprocess.CompletedProcess[str]([], int(ExitCode.DATA), "")
    monkeypatch.setattr(disk_faults, "verify_command", lambda data: damaged)
    faults, _, _ = asyncio.run(struck(tmp_path, "0 flip n2 for=0.01 at=0.5 file=hours"))
    assert [damage.found_by for damage in faults.damages] == [["verify"]]


@pytest.mark.parametrize(
    ("kind", "before", "after", "found"),
    [
        ("deliveries", "", "28 rows", True),
        ("deliveries", "3 rows", "31 rows", True),
        ("deliveries", "28 rows", "28 rows", False),
        ("hours", "", "28 rows", False),
    ],
)
def test_verify_may_tell_a_lost_page_of_hand_overs_by_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, before: str, after: str, found: bool
) -> None:
    """Seed 3737: its rows are zeros, as a power cut leaves them in a file that is not synced. What stood in the note
    before tells nothing, and a lost page of another file is a fault."""

    def note(rows: str) -> str:
        return f"{rows} of the delivery log {UNWRITTEN}, the first in 1.log" if rows else ""

    said = subprocess.CompletedProcess[str]([], int(ExitCode.OK), f"sound\n{note(after)}\n")
    monkeypatch.setattr(disk_faults, "unwritten_rows", lambda data: note(before))
    monkeypatch.setattr(disk_faults, "verify_command", lambda data: said)
    faults, _, _ = asyncio.run(struck(tmp_path, f"0 zero n2 for=0.01 at=0.5 file={kind}"))
    assert (not faults.broken) == found


def test_an_old_copy_is_found_by_the_others(tmp_path: Path) -> None:
    """Copied, written to, put back: the bytes are the old ones again, and the node's log says who remembered more."""

    async def write(machines: Disks, nemesis: LiveNemesis) -> None:
        node = machines.nodes["n2"]
        while machines.log != ["end n2 -9", "start n2"]:
            await nemesis.lasts(0.001)
        (node.data_path / "journal/1.seg").write_bytes(b"more")
        while machines.log != ["end n2 -9", "start n2"] * 2:
            await nemesis.lasts(0.001)
        assert (node.data_path / "journal/1.seg").read_bytes() == b"x" * 9_000
        node.log_path.write_bytes(OLD_COPY)

    faults, _, _ = asyncio.run(struck(tmp_path, "0 oldcopy n2 for=0.05 at=0 file=all", write))
    assert [damage.found_by for damage in faults.damages] == [["the other nodes"]]
    assert not list(tmp_path.glob("n2/old copy*"))


def test_an_old_copy_that_is_no_older_is_passed_over(tmp_path: Path) -> None:
    """Nothing was written meanwhile: no damage."""
    faults, machines, _ = asyncio.run(struck(tmp_path, "0 oldcopy n2 for=0.01 at=0 file=hours"))
    assert (faults.damages, "wipe n2" in machines.log) == ([], False)


def test_a_torn_write_puts_no_disk_in_doubt(tmp_path: Path) -> None:
    """Bytes behind the end are no damage; the node keeps its files."""
    faults, machines, _ = asyncio.run(struck(tmp_path, "0 torn n2 for=0.01 at=0.5 file=journal"))
    assert (faults.damages, machines.log[:2]) == ([], ["end n2 -9", "start n2"])
    assert (tmp_path / "n2/data/journal/1.seg").stat().st_size > 9_000


def test_a_failed_call_ends_its_process_and_explains_it(tmp_path: Path) -> None:
    """The control file asks for it; a call that failed explains that its process ends with 11, and how soon is told."""

    async def fail(machines: Disks, nemesis: LiveNemesis) -> None:
        control = tmp_path / "n2.disk"
        while not control.exists() or not int.from_bytes(control.read_bytes()[24:32], "little"):
            await nemesis.lasts(0.001)
        with control.open("r+b") as file:
            os.pwrite(file.fileno(), (1).to_bytes(8, "little"), 32)
        machines.end("n2", ExitCode.DATA)

    faults, machines, history = asyncio.run(struck(tmp_path, "0 fail n2 for=0.2 errno=EIO operation=sync", fail))
    assert machines.log[:2] == ["end n2 11", "start n2"]
    assert [event.expected for event in history.of(Crashed)] == [True]
    assert len(faults.fail_stop_ms) == 1
    assert faults.broken == []


def test_slow_and_full_are_lifted(tmp_path: Path) -> None:
    """While they last the control file says so; afterwards the disk is sound."""

    async def look(machines: Disks, nemesis: LiveNemesis) -> None:
        while not nemesis.fired:
            await nemesis.lasts(0.001)
        assert (tmp_path / "n3.disk").read_bytes() != disk_faults_sound

    disk_faults_sound = (0).to_bytes(8, "little") + (-1).to_bytes(8, "little", signed=True) + bytes(24)
    for line in ("0 slow n3 for=0.05 by=0.3", "0 full n3 for=0.05"):
        asyncio.run(struck(tmp_path, line, look))
        assert (tmp_path / "n3.disk").read_bytes() == disk_faults_sound


def test_a_slow_disk_goes_with_the_followers(tmp_path: Path) -> None:
    """Whoever leads is quick, and all are when it is over."""

    led: dict[str | None, list[str]] = {}

    def slowed() -> list[str]:
        return [path.stem for path in sorted(tmp_path.glob("*.disk")) if path.read_bytes()[:8] != bytes(8)]

    async def another_leads(machines: Disks, nemesis: LiveNemesis) -> None:
        for machines.leader, machines.term in (("n1", 1), ("n3", 2)):
            while nemesis.watch.leader() != machines.leader or not nemesis.fired:
                await nemesis.lasts(0.001)
            led[machines.leader] = slowed()
        await nemesis.heal()

    asyncio.run(struck(tmp_path, "0.3 slow followers for=60 by=0.2", another_leads))
    assert led == {"n1": ["n2", "n3"], "n3": ["n1", "n2"]}
    assert slowed() == []


@pytest.mark.parametrize(
    ("line", "anew"),
    [
        ("0 power n1 for=0.1 unsynced=lost", True),
        ("0 torn n1 for=0.1 at=0.5 file=deliveries", True),
        ("0 flip n1 for=0.1 at=0.5 file=journal", False),
        ("0 kill n1 for=0.1", False),
    ],
)
def test_who_lost_power_finds_another_run_of_the_kernel(tmp_path: Path, line: str, anew: bool) -> None:
    """A killed process finds the same: nothing that it wrote is lost."""
    boot = Path(FaultyDisk(tmp_path).environment("n1")["CHAOS_BOOT"])
    before = boot.read_text()
    asyncio.run(struck(tmp_path, line, loops=True))
    assert (boot.read_text() != before) is anew


def test_power_needs_a_disk_of_its_own(tmp_path: Path) -> None:
    """Without one it is told of as not run, with what is missing."""
    _, machines, _ = asyncio.run(struck(tmp_path, "0 power n1 for=0.1 unsynced=lost"))
    assert machines.log[-1] == (
        "not run {'power': 'needs a file system of its own for each node; there is no loop devices'}"
    )


@pytest.mark.parametrize(
    "other",
    [
        "flip n2 for=0.01 at=0.5 file=journal",
        "torn n2 for=0.01 at=0.5 file=deliveries",
        "wipe n2 for=0.01",
        "full n2 for=0.01",
        "oldcopy n2 for=0.01 at=0.5 file=journal",
    ],
)
def test_no_fault_touches_a_disk_without_power(tmp_path: Path, other: str) -> None:
    """Seed 990109: the power of all nodes was cut in the moment in which a bit of a journal was to be flipped; the run
    ended with EIO, and so did the copying of its files, which hid the cause."""
    _, machines, _ = asyncio.run(struck(tmp_path, f"0 power * for=0.05 unsynced=lost\n0.01 {other}", loops=True))
    assert not machines.touched.is_set()
    assert not machines.off
    assert sorted(machines.running()) == ["n1", "n2", "n3"]
