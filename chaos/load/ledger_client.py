"""What a running cluster says of its own messages, asked of GET /v1/ledger as anybody would ask: again, and of the next
node, while it has no leader.
"""

import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import aiohttp

from chaos.cluster.cluster import Cluster, ClusterFailed

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
        self._turns = itertools.cycle(cluster.nodes)
        self._window = {"from": str(from_ms), "to": str(to_ms)}

    async def __aenter__(self) -> "LedgerClient":
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_REQUEST_S))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.close()

    async def summary(self) -> dict[str, Any]:
        """How many messages of each class, and duplicates of each cause."""
        return await self._get("/v1/ledger/summary", {})

    async def settled(self) -> dict[str, Any]:
        """The summary as soon as no message is open and every node has answered. Raises ClusterFailed if that does not
        come about."""
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
            node_id = next(self._turns)
            try:
                url = f"{self._cluster.nodes[node_id].url}{path}"
                async with self._http.get(url, params={**self._window, **query}) as answer:
                    document: dict[str, Any] = await answer.json(content_type=None)
            except (aiohttp.ClientError, TimeoutError):
                return False
            if 400 <= answer.status < 500:
                raise ClusterFailed(f"GET {path} of {node_id}: {answer.status} {document}")
            if answer.status == 200:
                found.append(document)
            return bool(found)

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
