"""The ledger over real routes, when a leader pushed a message and neither the log nor its own account kept it (FOUND
D5)."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from api.port.timestamp import render_time
from chaos.client.outcome import Outcome
from chaos.simulator.world.world import World
from storage.format.position import HOUR_MS

LEVEL = 3


def asked(world: World, node: str, method: str, target: str, body: Any = None) -> Any:
    """The answer's document; a good one has to come within ten seconds."""
    answers: list[Outcome[Any]] = []
    data = b"" if body is None else json.dumps(body).encode()
    world.client(node).http(method, target, answers.append, body=data)
    assert world.run_until(lambda: bool(answers), 10)
    assert answers[0].kind == "ok", answers
    assert answers[0].result.status < 300, answers[0].result.body
    return json.loads(answers[0].result.body)


def grown(world: World) -> str:
    """The leader of a cluster that has reached the newest level."""
    world.start()
    assert world.run_until(lambda: {node.group.store.level for node in world.nodes().values()} == {LEVEL}, 20)
    return led(world)


def led(world: World, *, but: str | None = None) -> str:
    """The node that leads, as soon as one does; another one than `but`."""
    assert world.run_until(lambda: world.leader() not in (None, but), 20)
    return world.leader() or ""


def written_back(world: World, node_id: str) -> None:
    """The kernel wrote this node's account to its disk, as it does after a while."""
    disk, directory = world.processes[node_id].disk, world.nodes()[node_id].group.directory.deliveries
    for name in disk.list_directory(directory):
        fd = disk.open_write(directory / name)
        disk.fdatasync(fd)
        disk.close(fd)
    disk.fsync_directory(directory)


def lost_power(world: World, node_id: str) -> None:
    """And its whole account, which was young."""
    world.processes[node_id].power_cut(torn=False)


def lost_disk(world: World, node_id: str) -> None:
    """And its directory was emptied, as operating.md says."""
    world.processes[node_id].kill()
    world.processes[node_id].wipe()


def was_killed(world: World, node_id: str) -> None:
    """The machine runs on, and nothing of its account is lost."""
    world.processes[node_id].kill()


def passed_by(world: World, node_ids: list[str]) -> None:
    """One of these is elected, and loses its term before it is established; its no-op is in the log."""
    nodes = {node_id: world.nodes()[node_id] for node_id in node_ids}
    with pytest.MonkeyPatch.context() as held:
        for node in nodes.values():
            held.setattr(node.group.raft, "_apply", lambda now: False)
        assert world.run_until(lambda: any(node.group.raft.is_leader for node in nodes.values()), 20)
        (second,) = (node for node in nodes.values() if node.group.raft.is_leader)
        world.run(0.05)  # its no-op goes out
        assert not second.group.raft.established
        second.group.raft.resign()


def pushed_twice(
    world: World, ends: Callable[[World, str], None], *, old: bool, between: bool = False
) -> tuple[str, str]:
    """A message that one leader pushed before it ended so, and a later one delivered, the next one or, if one was
    `between`, that behind it; the first one is back. Returns the message's id and the leader."""
    first = grown(world)
    settings = {"mode": "push", "handover": "fast", "target": {"url": world.receivers.url("r")}}
    asked(world, first, "PUT", "/v1/topics/hooks", settings)
    id_text = asked(world, first, "POST", "/v1/messages", {"topic": "hooks", "body": 1, "delay": "1s"})["id"]
    if old:
        written_back(world, first)
    followers = [node_id for node_id in world.ids if node_id != first]
    world.run(0.8)  # before the push is planned
    for node_id in followers:
        world.network.cut(first, node_id)  # a Lease goes nowhere; this leader is trusted a while longer
    assert world.run_until(lambda: bool(world.receivers.log), 0.4)
    ends(world, first)
    if between:
        passed_by(world, followers)
    led(world, but=first)
    world.network.heal_all()
    assert world.run_until(lambda: len(world.receivers.log) == 2, 30)
    world.processes[first].start()
    world.run(5)
    leader = led(world)
    assert {received.id for received in world.receivers.log} == {id_text}
    return id_text, leader


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize(("ends", "old"), [(lost_power, False), (lost_power, True), (lost_disk, False)])
def test_d5_what_a_lost_account_may_have_told_is_not_delivered_once_and_complete(
    ends: Callable[[World, str], None], old: bool, between: bool
) -> None:
    """The receiver got two. Whether the term's beginning is left, or nothing of it, or no directory; and the gap ends:
    of what is scheduled later all is told."""
    with World(seed=5) as world:
        id_text, leader = pushed_twice(world, ends, old=old, between=between)
        ledger = asked(world, leader, "GET", f"/v1/messages/{id_text}")["ledger"]
        assert ledger["class"] == "delivered"
        assert "records_missing" in ledger["flags"]
        assert not ledger["window"]["complete"]
        assert not ledger["window"]["unreachable"]
        (gap,) = ledger["window"]["gaps"]
        assert (gap["node"] is None) == (not old)
        summary = asked(world, leader, "GET", "/v1/ledger/summary")
        assert not summary["window"]["complete"]
        assert summary["classes"]["delivered_once"] == 0
        later = asked(world, leader, "POST", "/v1/messages", {"topic": "hooks", "body": 2})["id"]
        world.run(2)
        ledger = asked(world, leader, "GET", f"/v1/messages/{later}")["ledger"]
        assert (ledger["class"], ledger["flags"]) == ("delivered_once", [])
        assert ledger["window"]["complete"]


def test_d5_a_leader_that_was_only_killed_leaves_no_gap() -> None:
    """Its account has both hand-overs between it and the next, and says so."""
    with World(seed=5) as world:
        id_text, leader = pushed_twice(world, was_killed, old=False)
        ledger = asked(world, leader, "GET", f"/v1/messages/{id_text}")["ledger"]
        assert ledger["class"] == "delivered_more"
        assert [each["cause"] for each in ledger["duplicates"]] == ["failover"]
        assert ledger["window"]["complete"]


def test_d5_a_cluster_that_starts_hands_leadership_on_and_restarts_in_order_leaves_no_gap() -> None:
    """Nor does one that is stopped as a whole."""
    with World(seed=5) as world:
        leader = grown(world)
        ids = []
        for _ in range(3):
            ids.append(asked(world, leader, "POST", "/v1/messages", {"topic": "t", "body": 1})["id"])
            (message,) = asked(world, leader, "POST", "/v1/topics/t/pull", {"max": 1})["messages"]
            asked(world, leader, "POST", "/v1/topics/t/ack", {"receipts": [message["receipt"]]})
            former = leader
            world.processes[former].stop()
            leader = led(world, but=former)
            world.run(3)
            world.processes[former].start()
            world.run(3)
        for process in world.processes.values():
            process.stop()
        world.run(15)
        world.start()
        leader = led(world)
        world.run(2)
        for id_text in ids:
            ledger = asked(world, leader, "GET", f"/v1/messages/{id_text}")["ledger"]
            assert ledger["class"] == "delivered_once"
            assert ledger["window"]["complete"], ledger["window"]


def test_44159_a_summary_of_a_window_whose_hours_went_by_age_is_not_complete() -> None:
    """The summary counts no hand-over of a removed hour, and says so. A later window lacks nothing. A clock that was
    ahead removed the hour; the answer of a right clock names it too."""
    storage = {"checkpoint_s": 2, "retention_ms": 4_000, "key_retention_ms": 4_000}
    with World(seed=5, config={"storage": storage}) as world:
        leader = grown(world)
        settings = {"mode": "push", "target": {"url": world.receivers.url("r")}}
        asked(world, leader, "PUT", "/v1/topics/hooks", settings)
        asked(world, leader, "POST", "/v1/messages", {"topic": "hooks", "body": 1})
        assert world.run_until(lambda: bool(world.receivers.log), 5)
        world.run(1)
        ever = "/v1/ledger/summary?from=2020-01-01T00:00:00Z"
        summary = asked(world, leader, "GET", ever)
        assert summary["window"]["complete"], summary["window"]
        assert (summary["scheduled"], summary["window"]["removed_until"]) == (1, None)
        before = world.nodes()[leader].clock.now_ms()
        for process in world.processes.values():
            process.clock.jump(3_700.0)
        catalog = world.nodes()[leader].group.store.catalog
        assert world.run_until(lambda: catalog.last_unlinked(0, 1 << 32) is not None, 60)
        for process in world.processes.values():
            process.clock.true()
        world.run(5)
        leader = led(world)
        window = asked(world, leader, "GET", ever)["window"]
        end = render_time((before // HOUR_MS + 1) * HOUR_MS)
        assert (window["complete"], window["removed_until"], window["retained_from"]) == (False, end, end)
        page = asked(world, leader, "GET", "/v1/ledger?from=2020-01-01T00:00:00Z")
        assert (page["items"], page["window"]["complete"]) == ([], False)
        window = asked(world, leader, "GET", f"/v1/ledger/summary?from={end}&to=2030-01-01T00:00:00Z")["window"]
        assert (window["complete"], window["removed_until"]) == (True, None)
