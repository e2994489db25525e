"""A request on its way from the node that was asked to the one that leads, and its answer on the way back."""

from collections.abc import Callable, Mapping

import msgspec


class ForwardRequest(msgspec.Struct, frozen=True):
    """A request on its way to the leader, untouched. `target` is path and query as they came, still quoted."""

    method: str
    target: str
    headers: Mapping[str, str]  # the subset that means something to the leader, with Hourwheel-Forwarded set
    body: bytes
    gone: Callable[[], bool] = lambda: False  # whether an answer with something in it reaches nobody any more


class ForwardAnswer(msgspec.Struct, frozen=True):
    """The leader's answer; the server passes on status, body and those headers that are the contract's."""

    status: int
    headers: Mapping[str, str]
    body: bytes
