"""How long a run waits for a new node: for as long as it gets on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from chaos.cluster.cluster import Cluster, ClusterFailed
from chaos.cluster.replacing import has_vote


class _Pages:
    """A cluster whose node tells these of itself, one each time it is asked, and the last for ever."""

    def __init__(self, *pages: dict[str, Any] | None) -> None:
        self.pages = list(pages)

    async def status(self, node_id: str) -> dict[str, Any] | None:
        """The next page."""
        own = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
        return own and {"nodes": [{"id": "n1", "role": "leader"}, {"id": node_id} | own]}

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str, timeout_s: float) -> None:
        """At once, again and again."""
        while not await condition():
            pass


def _wait(monkeypatch: pytest.MonkeyPatch, *pages: dict[str, Any] | None) -> None:
    """Each look at the clock is half a minute after the one before."""
    clock = iter(range(0, 10_000, 30))
    monkeypatch.setattr("chaos.cluster.replacing.time.monotonic", lambda: float(next(clock)))
    asyncio.run(has_vote(cast(Cluster, _Pages(*pages)), "n2"))


def test_a_node_that_gets_on_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """15,000 hours took two minutes: a run of chaos gave it one."""
    fetched = [{"role": "learner", "applied_index": 0, "snapshot": {"done_bytes": done}} for done in range(20)]
    _wait(monkeypatch, None, *fetched, {"role": "follower", "applied_index": 9, "snapshot": None})


@pytest.mark.parametrize("page", [None, {"role": "learner", "applied_index": 7, "snapshot": {"done_bytes": 1}}])
def test_a_node_that_does_not_get_on_is_a_failure(monkeypatch: pytest.MonkeyPatch, page: dict[str, Any] | None) -> None:
    """A node that answers nothing does not get on either."""
    with pytest.raises(ClusterFailed, match="n2 has no vote, and has not got on for 60 s"):
        _wait(monkeypatch, page)
