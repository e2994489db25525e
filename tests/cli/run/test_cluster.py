"""`hourwheel cluster status`: what a follower does not know is asked of the leader it names."""

import json
from typing import Any

from node.runtime.exit_code import ExitCode
from tests.cli.conftest import Call
from tests.cli.scripted_node import ScriptedNode


def cluster(leader: str | None, http: str, *, at_leader: bool) -> dict[str, Any]:
    """The document of a node; n2's address is not needed."""
    figures = {"applied_index": 7, "lag": 0, "clock_offset_ms": 0.5}
    unknown = dict.fromkeys(figures)
    nodes = [
        {"id": "n1", "role": "leader", "state": "up", "http": http, "raft": "a:1", "reads": [1, 3]}
        | (figures if at_leader else unknown),
        {"id": "n2", "role": "follower", "state": "up", "http": "b:1", "raft": "b:2", "reads": [1, 3]} | figures,
    ]
    shared = {"cluster_id": "00ff", "leader": leader, "term": 3, "commit_index": 7, "level": 3}
    return shared | {"dispatch": {"tick": 5}, "lateness_ms": {"p50": 1.0} if at_leader else {}, "nodes": nodes}


def test_a_follower_names_the_leader_which_is_asked(node: ScriptedNode, call: Call) -> None:
    """The leader's figures are shown, as a table and as a document."""
    with ScriptedNode() as leader:
        http = leader.url.removeprefix("http://")
        for args in ((), ("-o", "json")):
            node.say(200, cluster("n1", http, at_leader=False))
            leader.say(200, cluster("n1", http, at_leader=True))
            result = call("cluster", "status", *args)
            assert (result.exit_code, result.stderr) == (ExitCode.OK, ""), result.output
            if args:
                assert json.loads(result.stdout) == cluster("n1", http, at_leader=True)
                continue
            assert "lateness_ms   p50 1.0\n" in result.stdout
            assert result.stdout.splitlines()[-2].split()[5:] == ["7", "0", "0.5", "1,", "3"]


def test_a_leader_that_does_not_answer(node: ScriptedNode, call: Call) -> None:
    """What the follower knows is shown, and what is missing is said."""
    node.say(200, cluster("n1", "127.0.0.1:9", at_leader=False))
    result = call("cluster", "status")
    assert result.exit_code == ExitCode.OK
    assert "figures of other nodes are missing, only the leader knows them: cannot reach" in result.stderr
    assert result.stdout.splitlines()[-2].split()[5:] == ["-", "-", "-", "1,", "3"]


def test_nobody_else_is_asked(node: ScriptedNode, call: Call) -> None:
    """With --local, at the leader, without a leader; nor is the answer of another cluster taken."""
    for document, args in (
        (cluster("n1", "127.0.0.1:9", at_leader=False), ("--local",)),
        (cluster("n1", "127.0.0.1:9", at_leader=True), ()),
        (cluster(None, "127.0.0.1:9", at_leader=False), ()),
    ):
        node.say(200, document)
        result = call("cluster", "status", *args, "-o", "json")
        assert (json.loads(result.stdout), result.stderr) == (document, "")
    with ScriptedNode() as other:
        document = cluster("n1", other.url.removeprefix("http://"), at_leader=False)
        node.say(200, document)
        other.say(200, document | {"cluster_id": "11"})
        result = call("cluster", "status", "-o", "json")
        assert json.loads(result.stdout) == document
        assert "answers for another cluster" in result.stderr
