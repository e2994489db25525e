"""Requests under an `Idempotency-Key` over dictionaries, as api.port.port.KeyedPort has them."""

from collections.abc import Awaitable, Callable
from typing import Any

from api.port.forward import RequestKey
from api.port.problem import FieldFault, Problem


class MemoryKeyed:
    """Implements KeyedPort: each call of the port whose key is new is made, and its result is kept in `kept`."""

    def __init__(self, port: Any, key: RequestKey, kept: dict[str, tuple[bytes, Any]]) -> None:
        self._port, self._key, self._kept = port, key, kept

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **named: Any) -> Any:
            key = self._key
            if key.key not in self._kept:
                self._kept[key.key] = key.fingerprint, await getattr(self._port, name)(*args, **named)
                return self._kept[key.key][1]
            fingerprint, result = self._kept[key.key]
            if fingerprint != key.fingerprint:
                raise Problem("key-reused", "another request", errors=[FieldFault("", "", header="Idempotency-Key")])
            key.replayed = True
            return result

        return call
