"""A cluster that a term has ended is brought back by the command, on real directories, with nothing lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

from click.testing import CliRunner, Result

from chaos.cluster.cluster import Cluster
from cli.connection import Connection
from cli.main import main
from node.runtime.exit_code import ExitCode
from replication.journal.journal import Journal
from replication.journal.lower_term import lower_term, read_journal
from storage.file.disk import Disk

WORST = (1 << 32) - 1
COUNT = 20


def wedge(cluster: Cluster) -> None:
    """What the first build left on three disks after one frame: META with the largest term there is, and a vote."""
    for node in cluster.nodes.values():
        journal = Journal.open(node.data_path / "journal", disk=Disk())
        journal.setCurrentTerm(WORST, node.node_id)
        journal.close()


def lower(*arguments: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["node", "journal-term", *map(str, arguments)])


async def schedule(cluster: Cluster, count: int) -> list[str]:
    """Ids of messages due in an hour, each acknowledged."""
    leader = cluster.nodes[(await cluster.wait_leader()).node_id]
    document = {"topic": "t", "body": 1, "delay": "1h"}
    ids = []
    for _ in range(count):
        answer = await asyncio.to_thread(Connection(leader.url).call, "POST", "/v1/messages", document)
        ids.append(str(answer.document["id"]))
    return ids


async def refused(cluster: Cluster) -> None:
    """No node starts, each names the command."""
    cluster.start()
    for node_id, node in cluster.nodes.items():
        assert await cluster.ended(node_id) == ExitCode.DATA
        assert "hourwheel node journal-term" in node.log_path.read_text()


async def scene(directory: Path) -> None:
    """From messages acknowledged, over the wedge and each refusal, to the same messages and a leader."""
    async with Cluster(directory) as cluster:
        cluster.start()
        await cluster.wait_ready()
        known = await schedule(cluster, COUNT)
        data = [node.data_path for node in cluster.nodes.values()]
        busy = lower(*data, "--yes")
        assert (busy.exit_code, "in use by another process" in busy.output) == (ExitCode.DATA, True)
        for node_id in list(cluster.nodes):
            await cluster.stop(node_id)
        needless = lower(*data, "--yes")
        assert (needless.exit_code, "an election can be won" in needless.output) == (ExitCode.DATA, True)
        wedge(cluster)
        await refused(cluster)
        for given in (data[:2], [*data, data[0]]):
            assert lower(*given, "--yes").exit_code == ExitCode.DATA
        assert "nothing was changed" in lower(*data).output
        assert read_journal(data[0] / "journal", Disk()).term == WORST
        done = lower(*data, "--yes")
        assert done.exit_code == 0, done.output
        for path in data:
            found = read_journal(path / "journal", Disk())
            assert (found.vote, found.voter) == (None, True)
            assert found.last_term < found.term < 10_000
        cluster.start()
        await cluster.wait_ready()
        assert (await cluster.wait_leader()).term < 10_000
        for message_id in known:
            url = cluster.nodes["n1"].url
            answer = await asyncio.to_thread(Connection(url).call, "GET", f"/v1/messages/{message_id}")
            assert answer.document["state"] == "scheduled"
        await schedule(cluster, COUNT)


def test_a_cluster_at_the_end_of_the_terms_leads_again(tmp_path: Path) -> None:
    """Wedged, it does not start and says why; the command refuses what is not safe; then it leads and lost nothing."""
    asyncio.run(scene(tmp_path))


def test_a_crash_between_two_segments_is_taken_up(tmp_path: Path) -> None:
    """Stopped after each segment: the journal opens, with the old term, and the next run finishes it."""
    journal = Journal.open(tmp_path, disk=Disk(), segment_bytes=200)
    journal.add(b"\x01", 1, 0)
    for index in range(2, 12):
        if index == 5:
            journal.setCurrentTerm(WORST, "n2")
        journal.add(b"x" * 100, index, 3)
        journal.sync_now()
    journal.set_voter(True)
    journal.close()
    segments = len(list(tmp_path.glob("*.seg")))
    assert segments > 3

    class Stops(Disk):
        """Ends the command at a rename."""

        left = 0

        def rename(self, source: Path, target: Path) -> None:
            """Not once more."""
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            super().rename(source, target)

    disk = Stops()
    for left in range(segments):
        disk.left = min(left, 1)
        try:
            lower_term(tmp_path, disk, 1003)
        except KeyboardInterrupt:
            assert read_journal(tmp_path, Disk()).term == WORST
    lower_term(tmp_path, Disk(), 1003)
    found = read_journal(tmp_path, Disk())
    assert (found.term, found.vote, found.voter, found.last, found.last_term) == (1003, None, True, 11, 3)
    reopened = Journal.open(tmp_path, disk=Disk(), segment_bytes=200)
    assert [reopened.term_at(index) for index in range(2, 12)] == [3] * 10
    reopened.close()
