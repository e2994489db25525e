"""A request on its way from the node that was asked to the one that leads, and its answer on the way back."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar

import msgspec


class ForwardRequest(msgspec.Struct, frozen=True):
    """A request on its way to the leader, untouched. `target` is path and query as they came, still quoted."""

    method: str
    target: str
    headers: Mapping[str, str]  # the subset that means something to the leader, with Hourwheel-Forwarded set
    body: bytes
    gone: Callable[[], bool] = lambda: False  # whether an answer with something in it reaches nobody any more


class Answered:
    """Of a request that another node answers: which one, in which term; "" and 0 before it has."""

    __slots__ = ("node", "term")

    def __init__(self) -> None:
        self.node, self.term = "", 0


#: Where the running request wants that told; None: nowhere.
ANSWERED: ContextVar[Answered | None] = ContextVar("answered", default=None)


def tell(node: str, term: int) -> None:
    """This node has answered what the running request asked."""
    answered = ANSWERED.get()
    if answered is not None:
        answered.node, answered.term = node, term


class ForwardAnswer(msgspec.Struct, frozen=True):
    """The leader's answer; the server passes on status, body and those headers that are the contract's."""

    status: int
    headers: Mapping[str, str]
    body: bytes
