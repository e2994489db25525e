"""The protocol to pass requests on to the leader, and to ask the node at an address."""

from __future__ import annotations

from typing import Protocol

from api.port.forward import ForwardAnswer, ForwardRequest


class Forwarding(Protocol):
    """Passes requests on to the leader, and asks the node at an address. node.front.pass_on has the real one."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def leader_changed(self) -> None: ...

    async def forward(self, request: ForwardRequest) -> ForwardAnswer: ...

    async def ask(self, address: str, request: ForwardRequest, within_s: float) -> ForwardAnswer | None: ...
