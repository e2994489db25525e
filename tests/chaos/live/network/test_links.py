"""Links between processes, in namespaces and between proxies: what a condition does to real connections."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.cluster.links import WHOLE, Condition, Link, Links, merged
from chaos.cluster.network import ClusterNetwork
from chaos.live.network.choose import choose_ground, namespaces_refused
from chaos.live.network.namespaces import NetnsNetwork
from chaos.live.network.proxy import ProxyNetwork
from cli.local.local_nodes import LocalNode
from tests.examples import examples
from tests.waiting import wait_until

STATION = str(Path(__file__).with_name("station.py"))
CUT = Condition(cut=True)
IDS = ("n1", "n2", "n3")


class Stations:
    """One process for each node of a ground."""

    def __init__(self, cluster_network: ClusterNetwork, nodes: dict[str, LocalNode]) -> None:
        self.cluster_network, self.nodes = cluster_network, nodes
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        assert cluster_network.links is not None
        self.links = cluster_network.links

    async def say(self, node_id: str, command: str) -> list[str]:
        """What the station answers."""
        process = self.processes[node_id]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{command}\n".encode())
        return (await process.stdout.readline()).decode().split()

    async def silent(self, a: str, b: str) -> bool:
        """Whether a asks b, and no answer comes for half a second."""
        return await self.ask(a, b, patience_s=0.5) is None

    async def ask(self, a: str, b: str, size: int = 10, patience_s: float = 20.0) -> float | None:
        """Seconds until b's answer is back at a, None if none came."""
        answer = await self.say(a, f"ask {self.nodes[b].http_seen.replace(':', ' ')} {size} {patience_s}")
        return float(answer[1]) if answer[0] == "answered" else None

    async def seen(self, node_id: str) -> int:
        """Bytes that came to the node."""
        return int((await self.say(node_id, "seen"))[0])


@asynccontextmanager
async def stations(cluster_network: ClusterNetwork, directory: Path) -> AsyncIterator[Stations]:
    """Three of them, all connected with each other."""
    async with cluster_network:
        nodes = {node.node_id: node for node in cluster_network.place(IDS, directory)}
        here = Stations(cluster_network, nodes)
        try:
            for node_id, node in nodes.items():
                here.processes[node_id] = await asyncio.create_subprocess_exec(
                    *cluster_network.prefix(node_id),
                    *(sys.executable, "-S", STATION, node.host, str(node.http_port)),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                )
                cluster_network.started(node_id, here.processes[node_id].pid)
                stdout = here.processes[node_id].stdout
                assert stdout is not None
                assert await stdout.readline() == b"ready\n"
            for a in IDS:
                assert all([await here.ask(a, b) is not None for b in IDS if b != a])
            yield here
        finally:
            for process in here.processes.values():
                process.kill()
                await process.wait()


REFUSED = asyncio.run(namespaces_refused(Path()))
GROUNDS = [
    pytest.param(NetnsNetwork, marks=pytest.mark.skipif(bool(REFUSED), reason=REFUSED), id="namespaces"),
    pytest.param(ProxyNetwork, id="proxies"),
]


async def cut_one_way(here: Stations) -> None:
    """What n1 sends n2 is gone, what n2 sends n1 comes, and the answer to that is gone; n3 hears both."""
    before = await here.seen("n1"), await here.seen("n2")
    held = here.links.put([("n1", "n2")], CUT)
    assert await here.silent("n2", "n1")
    assert await here.silent("n1", "n2")
    assert (await here.seen("n1") - before[0], await here.seen("n2") - before[1]) == (10, 0)
    assert await here.ask("n1", "n3") is not None
    assert await here.ask("n3", "n2") is not None
    here.links.lift(held)
    assert await here.ask("n1", "n2") is not None
    assert await here.ask("n2", "n1") is not None


async def cut_twice(here: Stations) -> None:
    """Two faults cut one link: it is whole when both have ended; and when all is healed."""
    first, second = (here.links.put([("n1", "n2"), ("n2", "n1")], CUT) for _ in range(2))
    here.links.lift(first)
    assert await here.silent("n1", "n2")
    here.links.lift(second)
    assert await here.ask("n1", "n2") is not None
    here.links.put([("n2", "n3")], CUT)
    here.links.put([("n2", "n3")], Condition(loss=1.0))
    here.links.heal()
    assert await here.ask("n2", "n3") is not None


async def delayed(here: Stations) -> None:
    """One way takes its time, other links do not."""
    here.links.put([("n1", "n2")], Condition(low_s=0.8, high_s=0.9))
    for a, b in (("n1", "n2"), ("n2", "n1")):
        took_s = await here.ask(a, b)
        assert took_s is not None
        assert took_s >= 0.8
    quick_s = await here.ask("n1", "n3")
    assert quick_s is not None
    assert quick_s < 0.8


async def throttled(here: Stations) -> None:
    """100 kB through a million bits a second take 0.8 s; they all come, also where a short queue drops some."""
    here.links.put([("n1", "n2")], Condition(bits_per_s=1e6))
    took_s = await here.ask("n1", "n2", 100_000)
    assert took_s is not None
    assert took_s > 0.7


async def lossy(here: Stations) -> None:
    """What is lost TCP sends again: a tenth of the packets costs time and nothing else."""
    here.links.put([("n1", "n2"), ("n2", "n1")], Condition(loss=0.1))
    assert await here.ask("n1", "n2", 100_000) is not None


async def clients_pass(here: Stations) -> None:
    """A client reaches a node that is cut off from all others, on its own port."""
    here.links.put([(a, b) for a in IDS for b in IDS if a != b], CUT)
    node = here.nodes["n1"]
    reader, writer = await asyncio.open_connection(node.host, node.http_port)
    writer.write(b"hello")
    async with asyncio.timeout(20):
        assert await reader.readexactly(5) == b"hello"
    writer.close()
    await writer.wait_closed()


SCENARIOS = (cut_one_way, cut_twice, delayed, throttled, lossy, clients_pass)


@pytest.mark.parametrize("cluster_network", GROUNDS)
def test_conditions_on_real_connections(cluster_network: Callable[[], ClusterNetwork], tmp_path: Path) -> None:
    """Each condition does what it says to the link it is put on, and to no other; every scenario has a network of its
    own, and they run side by side."""

    async def run(scenario: Callable[[Stations], Awaitable[None]]) -> None:
        async with stations(cluster_network(), tmp_path) as here:
            await scenario(here)

    async def run_all() -> None:
        async with asyncio.TaskGroup() as tasks:
            for scenario in SCENARIOS:
                tasks.create_task(run(scenario), name=scenario.__name__)

    asyncio.run(run_all())


@pytest.mark.skipif(bool(REFUSED), reason=REFUSED)
def test_packets_come_twice(tmp_path: Path) -> None:
    """TCP hides packets that come twice; the connection goes on."""

    async def run() -> None:
        async with stations(NetnsNetwork(), tmp_path) as here:
            here.links.put([("n1", "n2")], Condition(duplicate=1.0, high_s=0.005))
            assert await here.ask("n1", "n2", 50_000) is not None
            assert await here.seen("n2") == 50_000 + 20

    asyncio.run(run())


def cable_of(host: str) -> Path:
    """The interface of the clients of a network."""
    return Path(f"/sys/class/net/hw{host.split('.')[2]}")


@pytest.mark.skipif(bool(REFUSED), reason=REFUSED)
def test_nothing_is_left_of_a_network(tmp_path: Path) -> None:
    """Interfaces and processes are gone with the ground."""

    async def run() -> tuple[str, set[int]]:
        cluster_network = NetnsNetwork()
        async with cluster_network:
            cluster_network.place(IDS, tmp_path)
            assert cable_of(cluster_network.host).exists()
            return cluster_network.host, {int(cluster_network.prefix(node_id)[2]) for node_id in IDS}

    host, holders = asyncio.run(run())
    assert not cable_of(host).exists()
    assert not any(Path(f"/proc/{pid}").exists() for pid in holders)


KILLED = """
import asyncio, sys
from pathlib import Path
from chaos.live.network.namespaces import NetnsNetwork
async def run():
    async with NetnsNetwork() as ground:
        ground.place(["n1", "n2"], Path())
        print(ground.host, ground.prefix("n1")[2], flush=True)
        sys.stdin.read()
asyncio.run(run())
"""


@pytest.mark.skipif(bool(REFUSED), reason=REFUSED)
def test_nothing_is_left_of_a_network_whose_maker_is_killed() -> None:
    """The namespaces are held by pipes that only their maker holds: a kill -9 ends them, and the cables with them."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as maker:
        assert maker.stdout is not None
        host, holder = maker.stdout.readline().split()
        maker.kill()
    # The kernel takes a network down in its own time and tells nobody.
    wait_until(lambda: not cable_of(host).exists() and not Path(f"/proc/{holder}").exists())


def test_machine_without_namespaces_gets_proxies_and_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not root, or no such command: it is said, and the run goes on with what there is."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    chosen = asyncio.run(choose_ground(tmp_path, 1))
    assert isinstance(chosen.cluster_network, ProxyNetwork)
    assert chosen.why == "no network namespaces: network namespaces need root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asyncio.run(choose_ground(tmp_path, 1)).why == "no network namespaces: unshare: No such file or directory"


class Told(Links):
    """Remembers what it was told last of each link."""

    def __init__(self) -> None:
        super().__init__()
        self.now: dict[Link, Condition] = {}

    def apply(self, conditions: dict[Link, Condition]) -> None:
        """See Links."""
        self.now |= conditions


CONDITIONS = st.builds(
    Condition,
    cut=st.booleans(),
    loss=st.sampled_from([0.0, 0.1, 0.5]),
    high_s=st.sampled_from([0.0, 0.1]),
    bits_per_s=st.sampled_from([0.0, 1e3, 1e6]),
)
LINKS = st.frozensets(st.tuples(st.sampled_from(IDS), st.sampled_from(IDS)), min_size=1)


@examples(100)
@given(st.lists(st.tuples(LINKS, CONDITIONS, st.booleans()), max_size=12))
def test_link_is_what_those_make_of_it_that_still_hold_it(steps: list[tuple[frozenset[Link], Condition, bool]]) -> None:
    """In whatever order faults begin and end, a link is as if only those that still last had ever been."""
    links = Told()
    held: dict[int, tuple[frozenset[Link], Condition]] = {}
    for several, condition, ends in steps:
        held[links.put(several, condition)] = (several, condition)
        if ends:
            oldest = next(iter(held))
            links.lift(oldest)
            del held[oldest]
        for link, told in links.now.items():
            assert told == merged(each for of, each in held.values() if link in of)
    links.heal()
    assert all(told == WHOLE for told in links.now.values())


def test_several_conditions_are_the_worst_of_all() -> None:
    """Cut by one, narrow by another: both."""
    narrow = [Condition(bits_per_s=2e6), Condition(bits_per_s=1e6, loss=0.2), Condition(loss=0.1)]
    slow = [Condition(low_s=0.5, high_s=0.6), Condition(low_s=0.1, high_s=0.2)]
    assert merged([*narrow, *slow]) == Condition(bits_per_s=1e6, loss=0.2, low_s=0.1, high_s=0.2)
    assert merged([*narrow, CUT]).cut
    assert not CUT.shaped
    assert all(each.shaped for each in (*narrow, *slow))
