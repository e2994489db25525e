"""Two builds as one cluster: every node is upgraded under load, one after the other, and goes back once in between.

    all old -> n1 new -> (n1 old again, n1 new) -> n1 n2 new -> all new, level 1 -> (n2 old again, n2 new) -> level 2

In every mix each node leads in turn, old ones too. A follower and then the leader itself are killed. Until all nodes
are new, requests for the new level are refused, with the name of a node that does not read it.

Before the level rises each build opens and verifies the other's files. Afterwards the older one is refused by name: by
its own reader of the directory, at the handshake, and where it asks to join. The history is judged as any other:
nothing lost, early or doubled.

`make soak-versions` lets each node lead for two minutes in each mix, tests/chaos/versions/test_run.py for moments.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import aiohttp

from chaos.cluster.cluster import ClusterFailed
from chaos.live.run import PLAIN, LiveRun
from chaos.live.verdicts import ONE_BY_ONE
from chaos.plan.fault_plan import Fault, FaultPlan
from chaos.plan.load_plan import Plan
from chaos.versions.older_build import check_out, older_commit, run
from cli.local.local_nodes import LocalNode, how_it_ended, last_words, start_process, write_config
from storage.directory.verify import verify

ASK_S = 30.0
REFUSED_S = 20.0
LEAD_S = 60.0
LONGEST_S = 36_000.0
OLD, NEW = "old", "new"
ASKED = {"HOURWHEEL_RAFT_UPGRADE": "asked"}
"""The setting of an operator who wants to be able to go back. An older build does not know the key, and would refuse it
in a file."""
_NOT_COMPARED = "lock.mdb"  # LMDB's table of readers; every opening writes it


class Upgrade:
    """The steps of one upgrade, a Story for `LiveRun.run`. `older` is the directory of the older build. Each node leads
    for `calm` hand-overs. `say` gets lines of progress. If not `thorough`, the mixes kill no node but one leader of the
    older build, while upgraded nodes run beside it. Steps that exist in two ways are then done in one."""

    def __init__(self, older: Path, calm: int, say: Callable[[str], None], *, thorough: bool = True) -> None:
        self.older, self.calm, self._say, self._thorough = older, calm, say, thorough
        self.led: list[tuple[str, str, str]] = []
        """(mix, node, build) of each leader."""
        self.refusals: list[str] = []
        """The refusals of the older build, in the words of a log or an answer."""
        self._turn = 0

    async def __call__(self, live: LiveRun) -> None:
        """Carry out all steps, in order."""
        self._nemesis, self._cluster = live.nemesis, live.cluster
        self._watch, self._served = live.nemesis.watch, live.nemesis.service.served
        nodes = list(self._cluster.nodes)
        assert {await self.build(node_id) for node_id in nodes} == {OLD}
        await self.switch(nodes[0], NEW, "kill")
        await self.mix("1 new, 2 old")
        await self.switch(nodes[0], OLD, "kill")
        await self.switch(nodes[0], NEW, "stop")
        await self.switch(nodes[1], NEW, "stop")
        await self.mix("2 new, 1 old")
        await self.switch(nodes[2], NEW, "kill", keep=True)
        if self._thorough:
            await self.mix("all new, level 1")
            await self.switch(nodes[1], OLD, "stop")
            await self.switch(nodes[1], NEW, "kill")
        await self.raise_level()
        await self.refused_by_its_reader(nodes[0])
        await self.refused_at_the_handshake(nodes[2])
        await self.refused_to_join(next(iter(self._cluster.spare.values())))
        await self.mix("level 2")

    # -- builds

    async def build(self, node_id: str) -> str:
        """The build of the node's process, by its answers: the cluster page of the older one has no level."""
        found: list[str] = []

        async def said() -> bool:
            page = await self._cluster.status(node_id)
            found[:] = [NEW if "level" in page else OLD] if page else []
            return bool(found)

        await self._cluster.until(said, f"the page of {node_id}", ASK_S)
        return found[0]

    async def switch(self, node_id: str, build: str, how: Literal["kill", "stop"], *, keep: bool = False) -> None:
        """End the node, let the other build verify its files, and start that build there. With `keep`, copy its
        directory to `before` while the node is down."""
        async with self.down(node_id, how):
            path = self._cluster.nodes[node_id].data_path
            if keep:
                shutil.copytree(path, path.with_name("before"))
            faults = await asyncio.to_thread(self._faults, build, path)
            if faults:
                raise ClusterFailed(f"the {build} build does not verify {node_id}: {faults}")
            self._cluster.other_builds.pop(node_id, None)
            if build == OLD:
                self._cluster.other_builds[node_id] = self.older
        runs = await self.build(node_id)
        if runs != build:
            raise ClusterFailed(f"{node_id} was started as the {build} build and answers as the {runs} one")
        self._say(f"{node_id} is {build}")

    def _faults(self, build: str, path: Path) -> str:
        """The faults that this build finds in a directory of the other one."""
        if build == NEW:
            return "\n".join(verify(path).faults)
        verified = run(self.older, "verify", str(path))
        return verified.stdout + verified.stderr if verified.returncode else ""

    @asynccontextmanager
    async def down(self, node_id: str, how: Literal["kill", "stop"]) -> AsyncIterator[None]:
        """In the block the node's process has ended, and another node leads if it led. After it the node is ready."""
        leadership = await self._watch.wait_leader()
        async with self._nemesis.on(Fault(0, how, node_id, 0)):
            if leadership.node_id == node_id:
                await self._watch.wait_leader(leadership.term)
            yield
        await self._cluster.wait_ready(node_id)

    # -- mixes

    async def mix(self, name: str) -> None:
        """Let each node lead in turn, while the cluster has this mix of builds. Kill a follower meanwhile, and the
        leader at the end of its turn."""
        nodes = list(self._cluster.nodes)
        for node_id in nodes:
            await self.lead(node_id)
            self.led.append((name, node_id, await self.build(node_id)))
            self._say(f"{name}: {node_id} leads")
            await self._served(self.calm // 2)
            await self.ask()
            self._turn += 1
            victim = [other for other in nodes if other != node_id][self._turn % 2]
            for hurt in self._hurt(victim, node_id):
                async with self.down(hurt, "kill"):
                    await self._served(self.calm // 8)
                await self._served(self.calm // 8)

    def _hurt(self, follower: str, leader: str) -> tuple[str, ...]:
        if self._thorough:
            return follower, leader
        first_old = self.led[-1][2] == OLD and not any(build == OLD for _, _, build in self.led[:-1])
        return (leader,) if first_old else ()

    async def lead(self, node_id: str) -> None:
        """Move leadership to a node. A node that has not caught up yet is asked again."""
        until_s = time.monotonic() + LEAD_S
        while True:
            leader = (await self._watch.wait_leader()).node_id
            if leader == node_id:
                return
            try:
                moved = await self._watch.transfer(leader, node_id)
                await self._watch.wait_leader(moved.term_before)
            except (ClusterFailed, aiohttp.ClientError, TimeoutError):
                if time.monotonic() > until_s:
                    raise
                await self._served(1)

    async def ask(self) -> None:
        """Ask every node for the new level. An older build does not know the request. This build refuses it with the
        name of a node that lags, until all are new. Once the level is reached, this build confirms it."""
        for node_id in self._cluster.running():
            build = await self.build(node_id)
            older = sorted(self._cluster.other_builds)
            if build == NEW and not older and await self.level(node_id) == 1:
                continue  # a request would raise it now
            await self._cluster.until(partial(self._is_answered, node_id, older), f"{node_id} asked", ASK_S)

    async def _is_answered(self, node_id: str, older: list[str]) -> bool:
        status, document = await self.post(node_id, "/v1/cluster/upgrade", {"level": 2})
        code, named, reads = (document.get(name) for name in ("code", "node", "reads"))
        if node_id in older:
            return self._expect(status, {404: code == "unknown-route"}, document)
        if not older:
            return self._expect(status, {200: document.get("level") == 2}, document)
        known = code == "not-supported-yet" and (reads is None or (named in older and reads == [1, 1]))
        return self._expect(status, {422: known}, document) and reads is not None

    @staticmethod
    def _expect(status: int, wanted: dict[int, bool], document: dict[str, Any]) -> bool:
        """True if `wanted` has True for this status. False for an answer that says "try again". Any other raises
        ClusterFailed."""
        if status in (0, 409, 503, 504):
            return False
        if not wanted.get(status, False):
            raise ClusterFailed(f"an upgrade that was asked for: {status} {document}, expected {wanted}")
        return True

    async def level(self, node_id: str) -> int:
        """Return the level on the node's own cluster page: 1 if the page has none, 0 without an answer."""
        page = await self._cluster.status(node_id)
        return int(page.get("level", 1)) if page else 0

    async def post(self, node_id: str, path: str, document: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """(status, answer). Status 0 without an answer."""
        try:
            timeout = aiohttp.ClientTimeout(total=10)
            url = f"{self._cluster.nodes[node_id].url}{path}"
            async with aiohttp.ClientSession(timeout=timeout) as http, http.post(url, json=document) as answer:
                return answer.status, await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return 0, {}

    # -- the new level

    async def raise_level(self) -> None:
        """Ask for level 2, and wait until all nodes have it. Raises ClusterFailed if a node had it before."""
        nodes = list(self._cluster.nodes)
        if {await self.level(node_id) for node_id in nodes} != {1}:
            raise ClusterFailed("the level rose though nobody asked for it")
        await self._cluster.until(lambda: self._is_answered(nodes[1], []), "the level raised", ASK_S)

        async def risen() -> bool:
            return all([await self.level(node_id) == 2 for node_id in nodes])

        await self._cluster.until(risen, "level 2 on all nodes", ASK_S)
        self._say("level 2")

    async def refused_by_its_reader(self, node_id: str) -> None:
        """Check that the older build does not start on a directory of the new level. After a kill it finds the level in
        the journal, after a stop in order in the checkpoint. After a stop, also check that it changed no file."""
        ends: tuple[Literal["kill", "stop"], ...] = ("kill", "stop") if self._thorough else ("stop",)
        for how in ends:
            async with self.down(node_id, how):
                node = self._cluster.nodes[node_id]
                before = content(node.data_path)
                await self._ends_by_itself(node)
                if how == "stop" and content(node.data_path) != before:
                    raise ClusterFailed(f"the older build changed the directory of {node_id} that it refused")

    async def _ends_by_itself(self, node: LocalNode) -> None:
        said_before = node.log_path.stat().st_size
        process = start_process(node, other_build=self.older)
        try:
            returncode = await asyncio.to_thread(process.wait, REFUSED_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        said = node.log_path.read_bytes()[said_before:].decode(errors="replace")
        if not returncode or "version 2" not in said:
            raise ClusterFailed(f"the older build on {node.node_id}: {how_it_ended(returncode)}\n{said}")
        self._heard(said, "version 2")

    async def refused_at_the_handshake(self, node_id: str) -> None:
        """Start the older build on a copy of the directory from before the level rose. Check that a node refuses its
        handshake."""
        real = self._cluster.nodes[node_id]
        stale = replace(real, directory=real.directory / "stale")

        async def refused() -> bool:
            return "is at level 2" in last_words(stale, 1_000)

        async with self.down(node_id, "stop"):
            write_config(stale, list(self._cluster.nodes.values()))
            shutil.copytree(real.directory / "before", stale.data_path)
            process = start_process(stale, other_build=self.older)
            try:
                await self._cluster.until(refused, f"{node_id} refused at the handshake", REFUSED_S)
            finally:
                process.kill()
                process.wait()
        self._heard(last_words(stale, 1_000), "is at level 2")

    async def refused_to_join(self, spare: LocalNode) -> None:
        """Start an empty node of the older build, and ask to add it. Check that the refusal names the versions that it
        reads."""
        process = start_process(spare, other_build=self.older)
        wanted = {"id": spare.node_id, "raft": spare.raft, "http": spare.http}
        said: list[str] = []

        async def asked() -> bool:
            status, document = await self.post(next(iter(self._cluster.nodes)), "/v1/cluster/members", wanted)
            said[:] = [str(document.get("detail", ""))]
            if status == 201:
                raise ClusterFailed(f"a node of the older build was added: {document}")
            return "reads entries of versions 1 to 1" in said[0]

        try:
            await self._cluster.until(asked, f"{spare.node_id} refused as a member: {said}", REFUSED_S, 0.2)
        finally:
            process.kill()
            process.wait()
        self._heard(said[0], "reads entries")

    def _heard(self, said: str, words: str) -> None:
        line = next(line for line in said.splitlines() if words in line).strip()
        self.refusals.append(line)
        self._say(f"refused: {line[:200]}")


def content(path: Path) -> dict[str, bytes]:
    """Every file of a data directory, except the one that is written each time a directory is opened."""
    files = [each for each in sorted(path.rglob("*")) if each.is_file() and each.name != _NOT_COMPARED]
    return {str(each.relative_to(path)): each.read_bytes() for each in files}


async def upgrade(
    directory: Path, older: Path, *, rate: float, hold_s: float, say: Callable[[str], None], thorough: bool = True
) -> Upgrade:
    """Run the whole upgrade below `directory`. Raises ClusterFailed, also when a promise is broken."""
    load = Plan(rate=rate, batch=5, lease_ms=4_000, cancel_share=0.01, push_share=0.3)
    script = Upgrade(older, max(8, round(rate * hold_s)), say, thorough=thorough)
    bounds = replace(ONE_BY_ONE, on_time_ms=2_000, acknowledged_share=0.8)
    setup = replace(PLAIN, bounds=bounds, spare=1, older=older, environment=ASKED)
    async with LiveRun(FaultPlan(1, 3, LONGEST_S), load, directory, setup=setup) as live:
        await live.run(script)
        result = await live.judge()
    say(result.describe())
    if wrong := result.broken + result.fell_short:
        raise ClusterFailed("\n".join(wrong))
    return script


def main() -> None:
    """Let each node lead in each mix for `--hold` seconds."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--hold", type=float, default=120.0, help="seconds for which each node leads in each mix")
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second")
    parser.add_argument("--dir", type=Path, default=Path("chaos-data/versions"), help="made anew; kept")
    options = parser.parse_args()
    if options.dir.exists():
        shutil.rmtree(options.dir)
    with tempfile.TemporaryDirectory() as temporary:
        older = check_out(Path(temporary) / "older")
        print(f"from {older_commit()[:7]} to this build, {options.hold:g} s for each leader", flush=True)
        try:
            say = partial(print, flush=True)
            script = asyncio.run(upgrade(options.dir, older, rate=options.rate, hold_s=options.hold, say=say))
        except ClusterFailed as failed:
            sys.exit(f"BROKEN: {failed}")
    print(f"{len(script.led)} leaders in 4 mixes, the older build refused in {len(script.refusals)} ways; nothing lost")
