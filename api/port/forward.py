"""A request on its way from the node that was asked to the leader, and its answer on the way back."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Final

import msgspec


class ForwardRequest(msgspec.Struct, frozen=True):
    """A request on its way to the leader, unchanged. `target` is path and query as they came, still quoted."""

    method: str
    target: str
    headers: Mapping[str, str]  # those that mean something to the leader, with Hourwheel-Forwarded set
    body: bytes
    gone: Callable[[], bool] = lambda: False  # true if a delivery in the answer would reach no client any more


class Answered:
    """The node that answered a request which this node took and another one carried out, and its term. Until the answer
    is here, the node is "" and the term is 0."""

    __slots__ = ("node", "term")

    def __init__(self) -> None:
        self.node, self.term = "", 0


#: The `Answered` of the request that runs in this context. None: nobody asks which node answered it.
ANSWERED: ContextVar[Answered | None] = ContextVar("answered", default=None)


def tell(node: str, term: int) -> None:
    """Note the node that answered the running request, and its term."""
    answered = ANSWERED.get()
    if answered is not None:
        answered.node, answered.term = node, term


class ForwardAnswer(msgspec.Struct, frozen=True):
    """The leader's answer. The server passes on the status, the body and the headers of the contract."""

    status: int
    headers: Mapping[str, str]
    body: bytes


#: Characters of the key of a RequestKey.
REQUEST_KEY_MAX: Final = 255


class RequestKey:
    """The `Idempotency-Key` of a request, with a fingerprint of 16 bytes that stands for the request's content. The
    port sets `replayed` if the answer is that to an earlier request."""

    __slots__ = ("fingerprint", "key", "replayed")

    def __init__(self, key: str, fingerprint: bytes) -> None:
        self.key, self.fingerprint = key, fingerprint
        self.replayed = False
