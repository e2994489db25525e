"""Adding and removing nodes over a real socket."""

from typing import Any

import pytest

from api.port.forward import ForwardAnswer, ForwardRequest
from api.port.member import MemberView
from api.port.problem import Problem
from tests.api.harness import run, running
from tests.api.memory_port import MemoryPort

FOURTH = {"id": "n4", "raft": "10.0.0.4:7500", "http": "10.0.0.4:7400"}


def test_a_node_is_added() -> None:
    """201 with the learner, its number and the log index of the change."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", "/v1/cluster/members", FOURTH)
            assert reply.status == 201
            assert reply.json == FOURTH | {"number": 4, "role": "learner", "index": 4711}

    run(story())


def test_a_node_is_removed() -> None:
    """200 with the member as it was; an unknown one is 404, one that is needed 409."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("DELETE", "/v1/cluster/members/n3")
            assert (reply.status, reply.json["id"], reply.json["role"]) == (200, "n3", "removed")
            reply = await client.send("DELETE", "/v1/cluster/members/n9")
            assert (reply.status, reply.json["code"]) == (404, "unknown-node")
            reply = await client.send("DELETE", "/v1/cluster/members/n2")
            assert (reply.status, reply.json["code"]) == (409, "quorum-loss")

    run(story())


@pytest.mark.parametrize(
    ("change", "pointers", "says"),
    [
        ({"id": "n 4"}, ["/id"], "1 to 64 letters, digits"),
        ({"id": 4}, ["/id"], 'a node\'s id such as "n4"'),
        ({"id": "n2"}, ["/id"], "a member already"),
        ({"raft": "10.0.0.4"}, ["/raft"], "host:port"),
        ({"raft": "10.0.0.4:0"}, ["/raft"], "host:port"),
        ({"raft": ":7500"}, ["/raft"], "host:port"),
        ({"http": "10.0.0.4:99999"}, ["/http"], "host:port"),
        ({"http": "h" * 200 + ":7400"}, ["/http"], "at most 200 characters"),
        ({"http": "10.0.0.4:7500"}, ["/http"], "each listener has its own"),
        ({"raft": "", "http": None}, ["/raft", "/http"], "host:port"),
    ],
)
def test_bad_fields_are_named(change: dict[str, Any], pointers: list[str], says: str) -> None:
    """Each fault has its pointer, and says what is expected."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", "/v1/cluster/members", FOURTH | change)
            assert (reply.status, reply.json["code"]) == (422, "invalid-field")
            assert [error["pointer"] for error in reply.json["errors"]] == pointers
            assert says in reply.json["errors"][0]["detail"]

    run(story())


def test_all_three_fields_are_needed() -> None:
    """What is left out is named."""

    async def story() -> None:
        async with running() as client:
            reply = await client.send("POST", "/v1/cluster/members", {"id": "n4"})
            assert [error["pointer"] for error in reply.json["errors"]] == ["/raft", "/http"]

    run(story())


class Stepping(MemoryPort):
    """A leader that gave leadership to n2 because it is to go."""

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[ForwardRequest] = []

    def leader(self) -> str | None:
        return "n2"

    async def remove_member(self, node_id: str) -> MemberView:
        raise Problem("no-leader", "leadership went to n2")

    async def forward(self, request: ForwardRequest) -> ForwardAnswer:
        self.passed.append(request)
        return ForwardAnswer(200, {"Content-Type": "application/json", "Hourwheel-Node": "n2"}, b'{"id":"n1"}')


def test_a_leader_that_is_to_go_passes_the_request_on() -> None:
    """Leadership has moved; the new leader removes the old one, and its answer is the answer."""

    async def story() -> None:
        port = Stepping()
        async with running(port) as client:
            reply = await client.send("DELETE", f"/v1/cluster/members/{port.node_id}")
            assert (reply.status, reply.json, reply.headers["hourwheel-node"]) == (200, {"id": "n1"}, "n2")
            assert [(each.method, each.target) for each in port.passed] == [("DELETE", "/v1/cluster/members/n1")]

    run(story())
