"""The handlers that add and remove nodes."""

from typing import Final

from api.contract.object import Fields
from api.contract.resource.member import ADD, REMOVE
from api.http.answer import JSON, Answer
from api.http.exchange import Exchange
from api.http.route import Route
from api.port.member import MemberView
from api.port.problem import FieldFault, Problem
from api.read.document import read_object
from api.read.member import read_address, read_new_id

_READ: Final = {"id": read_new_id, "raft": read_address, "http": read_address}
_ADD: Final = Fields(_READ, required=dict.fromkeys(_READ, "is needed"))


async def add(exchange: Exchange) -> Answer:
    """POST /v1/cluster/members: make a node a learner. It becomes a voter by itself once it has caught up."""
    exchange.query(())
    exchange.require_type((JSON,))
    values = read_object(await exchange.read(), _ADD)
    if values["raft"] == values["http"]:
        detail = "is the address of raft too; each listener has its own"
        raise Problem("invalid-field", f"http {detail}", errors=[FieldFault("/http", detail)])
    member = await exchange.port.add_member(values["id"], values["raft"], values["http"])
    return exchange.document(_shape(member), status=201)


async def remove(exchange: Exchange) -> Answer:
    """DELETE /v1/cluster/members/{id}. A leader that is removed gives leadership away first, and passes the request
    on."""
    exchange.query(())
    try:
        return exchange.document(_shape(await exchange.port.remove_member(exchange.params["id"])))
    except Problem as problem:
        if problem.code != "no-leader" or exchange.port.leader() in (None, exchange.port.node_id):
            raise
    return await exchange.server.pass_on(exchange)


def _shape(member: MemberView) -> dict[str, object]:
    return {
        "id": member.id,
        "number": member.number,
        "raft": member.raft,
        "http": member.http,
        "role": member.role,
        "index": member.index,
    }


ROUTES: Final = (
    Route("POST", "/v1/cluster/members", add, says=ADD),
    Route("DELETE", "/v1/cluster/members/{id}", remove, says=REMOVE),
)
"""The routes of this file."""
