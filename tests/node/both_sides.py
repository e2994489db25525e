"""The leader and another node of one cluster, asked the same, each on topics of its own; and where they differ."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from api.contract.operation import JSON
from api.http.route import Route, RouteTable
from api.port.problem import Problem
from api.serve import ROUTES
from node.node import Node
from tests.node.every_request import Request
from tests.node.same_answer import Answer, Side, alike, answers, ask, told
from tests.node.wire_requests import Wire

_TABLE: Final = RouteTable(ROUTES)
#: Refusals that a node gives without asking another one.
_READ_HERE: Final = frozenset(
    ("malformed-json", "malformed-request", "forbidden", "unknown-route", "method-not-allowed", "too-large", "draining")
    + ("unsupported-media-type", "invalid-field", "unknown-field", "beyond-max-delay", "not-supported-yet")
)
#: What these answer is about the node that is asked.
_OF_THE_NODE: Final = ("/v1/cluster", "/v1/node", "/metrics", "/v1/node/drain", "/v1/cluster/snapshot")


class BothSides:
    """`differ` says where their answers differ. `met`: operation -> the statuses and codes that were seen."""

    def __init__(self, leader: Node, other: Node, third: Node) -> None:
        self.sides = Side(leader, "l"), Side(other, "f")
        self.differ: list[str] = []
        self.met: dict[str, set[str]] = defaultdict(set)
        row = next(peer for peer in third.config.peers if peer.id == third.config.node_id)
        self.third = third
        names = {"leader": leader.config.node_id, "other": other.config.node_id}
        for side in self.sides:
            side.names.update(names, third=row.id, raft=row.raft, http=row.http)

    async def ask(self, request: Request) -> None:
        """This of both at the same time; of a GET the HEAD as well."""
        await self._ask(request, request.method)
        if request.method == "GET":
            await self._ask(request, "HEAD")

    async def _ask(self, request: Request, method: str) -> None:
        came = await asyncio.gather(*(ask(side.node, _bytes(request, side, method)) for side in self.sides))
        found = [next(answers(each, [method])) for each in came]
        what = f"{method} {request.target} {str(request.body)[:200]} {request.headers}"
        self._compare(what, found, request, request.without)
        if method != request.method:
            return
        for side, answer in zip(self.sides, found, strict=True):
            if answer.said() != request.told:
                self.differ.append(
                    f"{what}: {side.id} says {answer.said()}, {request.told} is expected: {answer.body!r}"
                )
                continue
            for name, place in request.keep.items():
                side.names[name] = str(_at(answer.documents(), place))

    async def ask_in_turn(self, request: Request, *nodes: Node, to: Sequence[Node] = ()) -> None:
        """This of one node after the other, where the cluster is another one after each; of what they answer only the
        members are compared. `to`: which node it names, one for each that is asked."""
        found = []
        for at, node in enumerate(nodes):
            side = Side(node, "l", dict(self.sides[0].names) | ({"to": to[at].config.node_id} if to else {}))
            found.append(next(answers(await ask(node, _bytes(request, side, request.method)), [request.method])))
        first = _of_the_node(found[0])
        if first[0] != request.told or not all(_alike(first, _of_the_node(each)) for each in found):
            self.differ.append("\n".join((request.line, *(f"  {told(each)}" for each in found))))
        self._meet(_route(request.line), found)

    async def send(self, wire: Wire) -> None:
        """These bytes to both."""
        pieces = [[side.fill(piece).encode("latin-1") for piece in wire.pieces] for side in self.sides]
        came = await asyncio.gather(
            *(ask(side.node, *each, shut=wire.shut) for side, each in zip(self.sides, pieces, strict=True))
        )
        found = [list(answers(each, wire.methods())) for each in came]
        what = str(wire)[:400]
        for side, each in zip(self.sides, found, strict=True):
            statuses = " ".join(str(answer.status) for answer in each)
            if statuses != wire.told:
                self.differ.append(f"{what}: {side.id} says {statuses}, {wire.told} is expected: {each}"[:2_000])
        # Whether a node knows by then that the client has closed its side depends on how long the answer took.
        without = ("Connection",) if wire.shut else ()
        for pair in zip(*found, strict=False):
            self._compare(what, pair, without=without)

    def _compare(
        self, what: str, found: Sequence[Answer], request: Request | None = None, without: tuple[str, ...] = ()
    ) -> None:
        route = None if request is None else _route(request.line)
        self._meet(route, found)
        if route is not None and route.pattern in _OF_THE_NODE:
            same = _alike(*map(_of_the_node, found))
        else:
            same = told(found[0], without) == told(found[1], without)
        if not same:
            self.differ.append("\n".join((what, *(f"  {told(each, without)}" for each in found))))
        for side, answer in zip(self.sides, found, strict=True):
            if answer.status != 100:
                self._check_node(what, side, answer, route, request)

    def _meet(self, route: Route | None, found: Sequence[Answer]) -> None:
        if route is not None:
            self.met[f"{route.method} {route.pattern}"].update(word for each in found for word in each.said().split())

    def _check_node(self, what: str, side: Side, answer: Answer, route: Route | None, request: Request | None) -> None:
        """What the leader has to say it says in its own name, whoever was asked."""
        code = answer.said().partition(" ")[2] if request is None else request.code
        about_it = request is not None and (request.here or route is None or not route.leader)
        leader = self.sides[0].id
        expected = {leader, side.id} if about_it or code in _READ_HERE else {leader}
        if (by := answer.header("Hourwheel-Node")) not in expected:
            self.differ.append(f"{what}: answered by {by!r}, {answer.said()}")


def _bytes(request: Request, side: Side, method: str) -> bytes:
    body = side.fill(request.text()).encode()
    headers = [side.fill(each) for each in request.headers]
    if request.body is not None:
        headers.append(f"Content-Length: {len(body)}")
        if not any(each.startswith("Content-Type") for each in headers):
            headers.append(f"Content-Type: {JSON}")
    line = f"{method} {side.fill(request.target)} HTTP/1.1"
    return "\r\n".join((line, "Host: 127.0.0.1", "Connection: close", *headers, "", "")).encode() + body


def _route(line: str) -> Route | None:
    if not line:
        return None
    try:
        return _TABLE.find(*line.split(" ", 1))[0]
    except Problem:
        return None


def _at(value: Any, place: str) -> Any:
    for name in place.split("/"):
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def _of_the_node(answer: Answer) -> Any:
    """The status, the code, the names of the headers, and the documents; of figures in text their names."""
    found = answer.documents()
    if answer.header("Content-Type").startswith("text/plain"):
        found = [{line: None for line in found if line.startswith("# TYPE")}]
    return answer.said(), sorted(name for name, _ in answer.headers), found


def _alike(one: Any, other: Any) -> bool:
    return bool(one[:2] == other[:2]) and alike(one[2], other[2])
