"""The nemesis of real processes: what a plan does to a cluster, and what of it stands in the history."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import chaos
from chaos.cluster.cluster import ClusterFailed
from chaos.history.event import Fault as Seen
from chaos.history.history import History
from chaos.live.faults.clock import ClockFaults
from chaos.live.faults.handler import NotRun, PassedOver
from chaos.live.faults.link import LinkFaults
from chaos.live.faults.nemesis import LiveNemesis
from chaos.live.faults.process import ProcessFaults
from chaos.plan.fault_plan import KINDS, Fault, kinds_of
from tests.chaos.live.faults.carried_out import carried_out, marks, plan_of
from tests.chaos.live.faults.pretended import Machines


def test_fault_begins_and_ends_in_the_history(tmp_path: Path) -> None:
    """Each with the node it hit, by name and by role, and its arguments for people."""

    async def run() -> None:
        machines = Machines(tmp_path)
        nemesis, history = await carried_out(machines, "0 kill leader for=0.01", "0.05 pause n2 for=0.01")
        assert marks(history) == [
            ("kill", "n1", "leader", "begin"),
            ("kill", "n1", "leader", "end"),
            ("pause", "n2", "follower", "begin"),
            ("pause", "n2", "follower", "end"),
        ]
        assert history.of(Seen)[0].detail == "for=0.010"
        assert machines.log == ["end n1 -9", "start n1", "pause n2", "resume n2"]
        assert nemesis.fired == {"kill": 1, "pause": 1}

    asyncio.run(run())


def test_links_are_cut_for_as_long_as_it_says(tmp_path: Path) -> None:
    """A partition cuts both ways between its groups, a flapping one again and again; all are whole in the end."""

    async def run() -> None:
        machines = Machines(tmp_path)

        async def cut(nemesis: LiveNemesis) -> None:
            while len(machines.links.cut()) < 5:
                await nemesis.lasts(0.001)
            assert machines.links.cut() == {("n1", "n2"), ("n1", "n3"), ("n2", "n1"), ("n3", "n1"), ("n2", "n3")}

        lines = ["0 partition leader|* for=10", "0 cut n2>n3 for=10", "0 flap n1|n2 for=10 every=0.05"]
        _, history = await carried_out(machines, *lines, heal_when=cut)
        assert machines.links.cut() == set()
        assert {(kind, node) for kind, node, _, _ in marks(history)} == {
            ("partition", "n1|*"),
            ("cut", "n2>n3"),
            ("flap", "n1|n2"),
        }
        assert [role for kind, _, role, _ in marks(history) if kind == "cut"] == ["follower"] * 2

    asyncio.run(run())


def test_healing_ends_every_fault_at_once(tmp_path: Path) -> None:
    """A node that was to stay down for long is started, one that stood still goes on, what had not come does not."""

    async def run() -> None:
        machines = Machines(tmp_path)

        async def both(nemesis: LiveNemesis) -> None:
            while nemesis.fired.total() < 2:
                await nemesis.lasts(0.001)

        lines = ["0 kill n1 for=60", "0 pause n2 for=60", "15 kill * for=1"]
        nemesis, history = await carried_out(machines, *lines, heal_when=both)
        assert sorted(machines.running()) == ["n1", "n2", "n3"]
        assert machines.log[-2:] in (["start n1", "resume n2"], ["resume n2", "start n1"])
        assert nemesis.fired == {"kill": 1, "pause": 1}
        assert len(marks(history)) == 4

    asyncio.run(run())


def test_one_disk_in_doubt_at_a_time(tmp_path: Path) -> None:
    """A second node is not emptied before the first is a voter again that has caught up."""

    async def run() -> None:
        machines = Machines(tmp_path)
        machines.learners = {"n2"}
        nemesis, _ = await carried_out(machines, "0 wipe n2 for=0.01", "0.2 wipe n3 for=0.01", "0.3 wipe n2 for=0")
        assert [line for line in machines.log if "wipe" in line] == ["wipe n2", "wipe n2"]
        assert nemesis.reasons == {"wipe: the disk of another node is in doubt": 1}
        machines.learners.clear()
        machines.log.clear()
        nemesis, _ = await carried_out(machines, "0 wipe n2 for=0.01", "0.2 wipe n3 for=0.01")
        assert [line for line in machines.log if "wipe" in line] == ["wipe n2", "wipe n3"]

    asyncio.run(run())


def test_a_node_that_lacks_little_has_not_caught_up(tmp_path: Path) -> None:
    """Seed 990107: of 602 entries an empty disk lacked less than 2,000, so the disk of a second node of three was
    emptied while the first still fetched its snapshot."""

    async def run() -> None:
        machines = Machines(tmp_path)
        machines.applied = {"n2": 9}
        nemesis, _ = await carried_out(machines, "0 wipe n2 for=0.01", "0.2 wipe n3 for=0.01")
        assert [line for line in machines.log if "wipe" in line] == ["wipe n2"]
        assert nemesis.reasons == {"wipe: the disk of another node is in doubt": 1}

    asyncio.run(run())


class DyingSlowly(Machines):
    """A killed process is gone only when the test says so, and answers meanwhile as it did."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.gone_now = asyncio.Event()

    async def kill(self, name: str) -> None:
        """See Cluster."""
        await self.gone_now.wait()
        self.end(name, -9)


def test_a_leader_that_is_being_killed_is_no_witness_of_its_own_disk(tmp_path: Path) -> None:
    """Seed 990105: the leader is about to be emptied, and its page still says that it has caught up. Another disk that
    is to be damaged in that moment is passed over, or two of three are gone (A15)."""

    async def run() -> None:
        machines = DyingSlowly(tmp_path)

        async def decided(nemesis: LiveNemesis) -> None:
            while not nemesis.passed and len(nemesis._doubts) < 2:
                await nemesis.lasts(0.001)
            machines.gone_now.set()
            while not nemesis.fired:
                await nemesis.lasts(0.001)

        nemesis, _ = await carried_out(machines, "0.3 wipe leader for=10", "0.35 wipe n2 for=10", heal_when=decided)
        assert [line for line in machines.log if "wipe" in line] == ["wipe n1"]
        assert nemesis.reasons == {"wipe: the disk of another node is in doubt": 1}

    asyncio.run(run())


def test_a_leaders_disk_is_in_doubt_until_a_later_term_counts_it(tmp_path: Path) -> None:
    """It was emptied and runs again; what is said of it in the term that it led does not count, a later leader does."""

    async def run() -> None:
        machines = Machines(tmp_path)

        async def elected(nemesis: LiveNemesis) -> None:
            while not nemesis.passed:
                await nemesis.lasts(0.001)
            machines.leader, machines.term = "n3", 2
            while nemesis.fired["wipe"] < 2:
                await nemesis.lasts(0.001)

        lines = ["0.3 wipe leader for=0.01", "0.5 wipe n2 for=0.01", "1.2 wipe n2 for=0.01"]
        nemesis, _ = await carried_out(machines, *lines, heal_when=elected)
        assert [line for line in machines.log if "wipe" in line] == ["wipe n1", "wipe n2"]
        assert nemesis.reasons == {"wipe: the disk of another node is in doubt": 1}

    asyncio.run(run())


def test_a_node_that_ends_again_and_again_after_healing_is_told_at_once(tmp_path: Path) -> None:
    """Not waited for until the time for healing is over: how it ended and its last words are in the message."""

    async def run() -> None:
        machines = Machines(tmp_path)
        machines.unready = {"n2"}
        machines.nodes["n2"].directory.mkdir()
        machines.nodes["n2"].log_path.write_text("Fatal Python error: Bus error\n")
        async with LiveNemesis(machines.cluster(), History(), plan_of()) as nemesis:
            await nemesis.run()
            healing = asyncio.create_task(nemesis.heal())
            await nemesis._healed.wait()
            for _ in range(2):
                while "n2" not in machines.running():
                    machines.changed.clear()
                    await machines.changed.wait()
                machines.end("n2", -7)
            with pytest.raises(ClusterFailed, match=r"(?s)n2 ended by itself 2 times.*Bus error"):
                await healing

    asyncio.run(run())


def test_the_harness_leaves_no_word_in_the_nodes_logs() -> None:
    """What it gives nodes in their environment is none of the names in which they look for settings."""
    sources = [*Path(chaos.__path__[0]).rglob("*.py"), *Path(chaos.__path__[0]).rglob("*.c")]
    assert len(sources) > 100
    for source in sources:
        assert not re.search(r'"HOURWHEEL_(CLOCK|DISK)"', source.read_text()), source


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0 kill n4 for=1", "kill: there is no n4"),
        ("0 cut n1>n4 for=1", "cut: n1>n4 is no link of this cluster"),
        ("0 wipe * for=1", "wipe: the disk of one node at most may be in doubt"),
        ("0 replace n1 for=0", "replace: one node is replaced by one that is spare"),
        ("0.3 transfer leader for=0", "transfer: leadership goes from a leader to another node"),
    ],
)
def test_fault_that_cannot_be_is_passed_over_with_its_reason(line: str, reason: str, tmp_path: Path) -> None:
    """It is counted, and stands in no history."""

    async def run() -> None:
        nemesis, history = await carried_out(Machines(tmp_path), line)
        assert nemesis.reasons == {reason: 1}
        assert not nemesis.fired
        assert not marks(history)

    asyncio.run(run())


def test_kind_that_the_machine_lacks_is_reported_as_not_run(tmp_path: Path) -> None:
    """Once, with the reason; a kind without a handler too."""

    async def run() -> None:
        machines = Machines(tmp_path)
        machines.cluster_network.not_run = {"duplicate": "streams"}
        lines = [
            "0 jump n1 for=1 by=1",
            "0 jump n2 for=1 by=1",
            "0 slow n1 for=1 by=1",
            "0 duplicate *-* for=1 share=1",
        ]
        nemesis, history = await carried_out(machines, *lines)
        reasons = {"jump": "no compiler", "slow": "nothing here carries it out", "duplicate": "streams"}
        assert nemesis.not_run == reasons
        assert not marks(history)

    asyncio.run(run())


def test_refused_transfer_is_no_failure(tmp_path: Path) -> None:
    """It was asked for; whoever leads then leads."""

    async def run() -> None:
        machines = Machines(tmp_path)
        nemesis, _ = await carried_out(machines, "0.3 transfer n2 for=0")
        assert nemesis.fired == {"transfer": 1}
        assert machines.log == ["transfer n1 n2"]
        assert nemesis.fell_short == ["transfer: not now"]

    asyncio.run(run())


def test_leadership_is_moved_by_name_and_to_the_best_asked_of_every_node(tmp_path: Path) -> None:
    """In turn, so that some have to ask their leader."""

    async def run() -> None:
        machines = Machines(tmp_path)
        lines = ["+0 transfer follower for=0", "+0 transfer last for=0", "+0 transfer * for=0"]
        nemesis, _ = await carried_out(machines, *lines, heal_when=lambda nemesis: until_over(nemesis))
        assert machines.log == ["transfer n1 n2", "transfer n2 n3", "transfer n3 "]
        assert nemesis.fired == {"transfer": 3}

    async def until_over(nemesis: LiveNemesis) -> None:
        await nemesis.turns_over.wait()

    asyncio.run(run())


def test_nodes_are_restarted_one_after_the_other(tmp_path: Path) -> None:
    """The next one stops when the one before is ready."""

    async def run() -> None:
        machines = Machines(tmp_path)
        await carried_out(machines, "0 rolling * for=0.01")
        steps = [line for name in ("n1", "n2", "n3") for line in (f"end {name} 0", f"start {name}")]
        assert machines.log == steps

    asyncio.run(run())


@pytest.mark.parametrize(
    ("line", "nodes"), [("0 stop n2 for=0.01", ["n2"]), ("0 rolling * for=0.01", ["n1", "n2", "n3"])]
)
def test_a_node_that_does_not_stop_in_order_is_told_of(line: str, nodes: list[str], tmp_path: Path) -> None:
    """It died of the signal that asked it to stop. One that ends with 0 is no news."""

    async def run(returncode: int) -> list[str]:
        machines = Machines(tmp_path)
        machines.stops_with = returncode
        nemesis, _ = await carried_out(machines, line)
        return nemesis.fell_short

    assert asyncio.run(run(0)) == []
    assert asyncio.run(run(-15)) == [f"{node} was asked to stop: killed by signal 15" for node in nodes]


def test_a_rolling_restart_goes_on_past_a_node_that_is_removed(tmp_path: Path) -> None:
    """Seed 990117: a node was removed while its start was waited for, and the harness asked where it listens."""

    async def run() -> None:
        machines = Machines(tmp_path)
        machines.unready = {"n2"}

        async def removed(nemesis: LiveNemesis) -> None:
            while "start n2" not in machines.log:
                await nemesis.lasts(0.001)
            machines.gone["n2"] = machines.nodes.pop("n2")
            while not nemesis.fired:
                await nemesis.lasts(0.001)

        await carried_out(machines, "0 rolling * for=0.01", heal_when=removed)
        assert machines.log[-2:] == ["end n3 0", "start n3"]

    asyncio.run(run())


def test_a_story_puts_its_faults_on(tmp_path: Path) -> None:
    """For as long as the block lasts; one that cannot be is refused."""

    async def run() -> None:
        machines, history = Machines(tmp_path), History()
        async with LiveNemesis(machines.cluster(), history, plan_of()) as nemesis:
            nemesis.register(ProcessFaults(nemesis))
            async with nemesis.on(Fault(0, "kill", "n2", 0)) as hit:
                assert hit == ("n2",)
                assert machines.running() == ["n1", "n3"]
            assert "n2" in machines.running()
            with pytest.raises(PassedOver):
                async with nemesis.on(Fault(0, "kill", "n9", 0)):
                    pass
            with pytest.raises(NotRun):
                async with nemesis.on(Fault(0, "slow", "n1", 0)):
                    pass
        assert [phase for *_, phase in marks(history)] == ["begin", "end"]

    asyncio.run(run())


def test_handler_that_fails_fails_the_run(tmp_path: Path) -> None:
    """What it left behind is nobody's guess: no run goes on after it."""

    @asynccontextmanager
    async def broken(fault: Fault, nodes: tuple[str, ...]) -> AsyncIterator[None]:
        raise RuntimeError("no disk")
        yield

    async def run() -> None:
        async with LiveNemesis(Machines(tmp_path).cluster(), History(), plan_of("0 full n1 for=1")) as nemesis:
            nemesis.register({"full": broken})
            with pytest.raises(ExceptionGroup) as failed:
                await nemesis.run()
            assert failed.group_contains(RuntimeError, match="no disk")

    asyncio.run(run())


def test_every_live_kind_of_process_clock_and_link_has_a_handler(tmp_path: Path) -> None:
    """What is left is the disks': theirs are registered by themselves."""

    async def run() -> set[str]:
        async with LiveNemesis(Machines(tmp_path).cluster(), History(), plan_of()) as nemesis:
            groups = (ProcessFaults(nemesis), ClockFaults(nemesis), LinkFaults(nemesis))
            return {kind for group in groups for kind in group.handlers()}

    disks = {"power", "flip", "slow", "fail", "full", "torn", "zero", "truncate", "oldcopy"}
    assert asyncio.run(run()) == set(kinds_of("live")) - disks
    assert disks <= KINDS.keys()
