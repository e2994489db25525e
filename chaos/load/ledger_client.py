"""Asks a running cluster by GET /v1/ledger for the account of its own messages, as any client would.

While the cluster has no leader, the client asks one node after the other again.
"""

import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import aiohttp

from chaos.cluster.cluster import Cluster, ClusterFailed
from hourwheel.core.addresses import parse_addresses
from hourwheel.core.errors import Refused, error_of
from hourwheel.core.nodes import Nodes
from hourwheel.core.problem import read_problem

_LIMIT: Final = 1_000
_REQUEST_S: Final = 60.0
_SETTLED_S: Final = 60.0
_ANSWERED_S: Final = 60.0
_POLL_S: Final = 0.25
_OPEN: Final = ("pending", "in_flight")


class LedgerClient:
    """Asks a cluster about all messages due from `from_ms` until `to_ms`. Use as `async with`."""

    def __init__(self, cluster: Cluster, from_ms: int, to_ms: int) -> None:
        self._cluster = cluster
        self._nodes = Nodes(parse_addresses(node.url for node in cluster.nodes.values()))
        self._window = {"from": str(from_ms), "to": str(to_ms)}

    async def __aenter__(self) -> "LedgerClient":
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_REQUEST_S))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.close()

    async def summary(self) -> dict[str, Any]:
        """Return the ledger's summary: how many messages of each class, and how many duplicates of each cause."""
        return await self._get("/v1/ledger/summary", {})

    async def settled(self) -> dict[str, Any]:
        """Ask for the summary until it has no open message, and no node was unreachable. Return that summary. Raises
        ClusterFailed after _SETTLED_S."""
        found: list[dict[str, Any]] = []

        async def done() -> bool:
            found.append(await self.summary())
            still = sum(found[-1]["classes"][word] for word in _OPEN)
            return not still and not found[-1]["window"]["unreachable"]

        await self._cluster.until(done, "every message settled, by the ledger", _SETTLED_S, _POLL_S)
        return found[-1]

    async def duplicates(self) -> AsyncIterator[dict[str, Any]]:
        """Every duplicate, as rows that chaos.report.evidence.agreement takes."""
        cursor: str | None = None
        while True:
            page = await self._get("/v1/ledger", {"limit": str(_LIMIT)} | ({"cursor": cursor} if cursor else {}))
            for item in page["items"]:
                for each in item["duplicates"]:
                    yield _row(item["id"], each)
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def _get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        """The answer of the first node that has one. Raises ClusterFailed if none has, or it is refused."""
        found: list[dict[str, Any]] = []

        async def answered() -> bool:
            address = self._nodes.order(time.monotonic())[0]
            self._nodes.failed(address, time.monotonic())  # until it has answered
            try:
                async with self._http.get(f"{address}{path}", params={**self._window, **query}) as answer:
                    payload = await answer.read()
            except (aiohttp.ClientError, TimeoutError):
                return False
            if answer.status == 200:
                self._nodes.answered(address)
                found.append(json.loads(payload))
                return True
            error = error_of(read_problem(answer.status, answer.headers, payload), address.url)
            if isinstance(error, Refused):
                raise ClusterFailed(f"GET {path} of {address}: {error}")
            return False

        await self._cluster.until(answered, f"an answer to GET {path}", _ANSWERED_S, _POLL_S)
        return found[0]


def _row(message_id: str, each: Mapping[str, Any]) -> dict[str, Any]:
    repeated = each["repeats"]
    return {
        "id": message_id,
        "cause": each["cause"],
        "term": each["term"],
        "attempt": each["attempt"],
        "before_term": repeated["term"],
        "before_attempt": repeated["attempt"],
    }
