"""The scripts of faults, each one of the ways in which a cluster is hurt; parameters are how often and for how long."""

import asyncio
from collections.abc import Awaitable, Callable

from chaos.cluster import replacing
from chaos.scenario.nemesis import Role
from chaos.scenario.trial import Trial

Script = Callable[[Trial], Awaitable[None]]
CALM_S = 1.5
TWO_HOURS_MS = 7_200_000


def kills(role: Role, times: int, calm_s: float = CALM_S) -> Script:
    """kill -9 a node of this role again and again; the next comes when the killed one is ready and the service has run
    calmly.
    """

    async def script(trial: Trial) -> None:
        calm = int(trial.plan.rate * calm_s)
        for _ in range(times):
            await trial.served(calm)
            node_id, _ = await trial.nemesis.kill(role)
            await trial.served(calm)
            await trial.nemesis.restart(node_id, role)
        await trial.served(calm)

    return script


def kills_of_all(times: int) -> Script:
    """kill -9 all nodes at once, again and again: what the disks hold is all there is."""

    async def script(trial: Trial) -> None:
        calm = int(trial.plan.rate * CALM_S)
        for _ in range(times):
            await trial.served(calm)
            await trial.nemesis.kill_all()
        await trial.served(calm)

    return script


def slow_followers(delay_ms: int, inner: Script) -> Script:
    """Both followers' fdatasync takes `delay_ms`, at every leader anew, while `inner` runs."""

    async def script(trial: Trial) -> None:
        disks = trial.cluster.disks
        assert disks is not None, "the trial's disks cannot be slowed"

        async def follow() -> None:
            term = 0
            while True:
                leadership = await trial.cluster.wait_leader(term, timeout_s=float("inf"))
                term = leadership.term
                for node_id in trial.cluster.nodes:
                    disks.slow(node_id, 0 if node_id == leadership.node_id else delay_ms)

        following = asyncio.create_task(follow())
        try:
            await inner(trial)
        finally:
            following.cancel()
            for node_id in trial.cluster.nodes:
                disks.slow(node_id, 0)

    return script


def transfers(times: int, calm_s: float = CALM_S) -> Script:
    """Leadership moves on purpose again and again, to each node or to the best, asked of every node in turn."""

    async def script(trial: Trial) -> None:
        calm = int(trial.plan.rate * calm_s)
        nodes = list(trial.cluster.nodes)
        for number in range(times):
            await trial.served(calm)
            leader = (await trial.nemesis.leader()).node_id
            to = "" if number % 3 == 2 else nodes[(nodes.index(leader) + 1 + number % 2) % len(nodes)]
            await trial.nemesis.transfer(nodes[number % len(nodes)], to)
        await trial.served(calm)

    return script


def stops(times: int) -> Script:
    """SIGTERM the leader again and again: it hands over before it ends, and is started when the service runs calmly."""

    async def script(trial: Trial) -> None:
        calm = int(trial.plan.rate * CALM_S)
        for _ in range(times):
            await trial.served(calm)
            node_id, _ = await trial.nemesis.stop_leader()
            await trial.served(calm)
            await trial.nemesis.restart(node_id, "leader", "stop")
        await trial.served(calm)

    return script


def rolling_restarts(times: int, calm_s: float = CALM_S / 2) -> Script:
    """Every node is stopped in order and started again, one after the other, the next when the one before is ready and
    the service has run; so many rounds."""

    async def script(trial: Trial) -> None:
        calm = int(trial.plan.rate * calm_s)
        for _ in range(times):
            for node_id in trial.cluster.nodes:
                await trial.served(calm)
                await trial.nemesis.stop(node_id)
                await trial.served(calm)
                await trial.nemesis.restart(node_id, "follower", "stop")
        await trial.served(calm)

    return script


def stops_of_all(times: int) -> Script:
    """SIGTERM every node at once, again and again: what was on the wire is finished, and is known after the start."""

    async def script(trial: Trial) -> None:
        calm = int(trial.plan.rate * CALM_S)
        for _ in range(times):
            await trial.served(calm)
            await trial.nemesis.stop_all()
        await trial.served(calm)

    return script


def clock_steps(times: int, calm_s: float = CALM_S) -> Script:
    """The leader's wall clock steps ten seconds either way, and it yields; 300 ms and a drift, and it leads on; then a
    follower's clock is two hours ahead, and a minute behind, while the leader is paused, and killed.
    """

    async def script(trial: Trial) -> None:
        calm = int(trial.plan.rate * calm_s)
        for number in range(times):
            await trial.served(calm)
            case = number % 6
            if case < 2:
                node_id, before = await trial.nemesis.set_clock("leader", (10_000, -10_000)[case])
                await trial.nemesis.leader(before.term)
            elif case < 4:
                node_id, _ = await trial.nemesis.set_clock("leader", (300, 0)[case - 2], (0, 400)[case - 2])
            else:
                node_id, _ = await trial.nemesis.set_clock("follower", (TWO_HOURS_MS, -60_000)[case - 4])
                await trial.served(calm)
                if case == 4:
                    hurt, _ = await trial.nemesis.pause_leader(1.5)
                    await trial.cluster.wait_ready(hurt)
                else:
                    hurt, _ = await trial.nemesis.kill("leader")
                    await trial.nemesis.restart(hurt, "leader")
            await trial.served(calm)
            trial.nemesis.true_clock(node_id, "leader" if case < 4 else "follower")
        await trial.served(calm)

    return script


def pauses(times: int, seconds: float) -> Script:
    """SIGSTOP the leader for `seconds`, wake it under a new leader; times of no service are what the pause costs, not
    waits of the script.
    """

    async def script(trial: Trial) -> None:
        calm = int(trial.plan.rate * CALM_S)
        for _ in range(times):
            await trial.served(calm)
            node_id, _ = await trial.nemesis.pause_leader(seconds)
            await trial.served(calm)
            await trial.cluster.wait_ready(node_id)

    return script


def replacements(times: int) -> Script:
    """A new node is added and the one that was there longest is removed, so many times: with three nodes or more every
    founder goes, whoever leads.
    """

    async def script(trial: Trial) -> None:
        calm = int(trial.plan.rate * CALM_S / 2)
        for _ in range(times):
            await trial.served(calm)
            oldest, newest = next(iter(trial.cluster.nodes)), next(iter(trial.cluster.spare))
            await replacing.add(trial.cluster, newest)
            await trial.served(calm)
            await replacing.remove(trial.cluster, oldest)
            await trial.nemesis.leader()
        await trial.served(calm)

    return script
