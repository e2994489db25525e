"""The reconciliation of each kind: class, flags and causes of every life of its messages, in one report.

The cells share one cluster, which runs while its files are exported, and one Spark job. Each kind has a topic of its
own for each life. The receivers' log goes into the job too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import pytest

from hourwheel.webhook_receiver import Receiver, Reply, Request
from tests.semantics.kinds import KINDS
from tests.semantics.lives import LIVES, TOLD, Ids, Told, failover, held
from tests.semantics.real_nodes import RealNodes, real_nodes
from tests.semantics.reconciled import Report, export, reconcile
from tests.waiting import until

SETTINGS: Final[dict[str, dict[str, object]]] = {"push": {"allow": ["127.0.0.0/8"]}, "storage": {"checkpoint_s": 1}}
#: The lives in which the newest due time is the one that the first hand-over is measured against.
ON_TIME: Final = ("delivered", "pushed", "rescheduled", "shift", "release")


@dataclass(frozen=True)
class Lived:
    """The messages after all lives: ids by life and kind, topics by life and kind, and due times by id."""

    ids: dict[str, Ids]
    topics: dict[str, dict[str, str]]
    due_ms: dict[str, int]

    def all(self) -> list[str]:
        """All ids."""
        return [id for by_kind in self.ids.values() for ids in by_kind.values() for id in ids]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lived, Report]]:
    """All lives of all kinds, and what the report says of them. The cluster runs on until the end."""
    place = tmp_path_factory.mktemp("reconciled")
    with real_nodes(place / "cluster", settings=SETTINGS) as runner:
        lived = runner.run(_live(runner.nodes))
        runner.run(export(runner.nodes, place / "export"))
        yield lived, reconcile(place / "export", runner.nodes.received, lived.all(), place / "out")


async def _live(nodes: RealNodes) -> Lived:
    ids = {"held": await held(nodes)}
    async with _receiver(nodes):
        for name, life in LIVES.items():
            made = await asyncio.gather(*(life(nodes, kind, f"{kind}-{name}") for kind in KINDS))
            ids[name] = dict(zip(KINDS, made, strict=True))
    topics = {name: {kind: f"{kind}-{name}" for kind in KINDS} for name in ids}
    ids["failover"], topics["failover"] = await failover(nodes)
    lived = Lived(ids, topics, {})
    for id in lived.all():
        due = (await nodes.done(f"GET /v1/messages/{id}?ledger=false"))["due"]
        lived.due_ms[id] = round(datetime.fromisoformat(due).timestamp() * 1000)
    await _long_overdue(lived)
    return lived


@asynccontextmanager
async def _receiver(nodes: RealNodes) -> AsyncIterator[None]:
    """A receiver of webhooks, which writes the log of what it got."""

    def receive(port: int, request: Request) -> Reply:
        id, *name = (request.headers[f] for f in ("webhook-id", "hourwheel-term", "hourwheel-attempt"))
        term, attempt = map(int, name)
        nodes.got([{"id": id, "term": term, "attempt": attempt}])
        return Reply(200)

    receiver = Receiver(receive)
    nodes.receiver_url = f"http://127.0.0.1:{await receiver.listen('127.0.0.1', 0)}/"
    try:
        yield
    finally:
        await receiver.close()


async def _long_overdue(lived: Lived) -> None:
    """Wait until what is held would count as lost."""
    last_ms = max(lived.due_ms[id] for life in ("held", "paused") for ids in lived.ids[life].values() for id in ids)
    await until(lambda: time.time() * 1000 > last_ms + 2_500)


def wanted(kind: str, life: str) -> Told:
    """What the report must say of this kind. A message that was extended has moved."""
    told = TOLD[life]
    return replace(told, flags=told.flags | {"rescheduled"}) if kind == "extended" else told


def told_of(report: Report, id: str) -> Told:
    """What the report says of a message."""
    row = report.rows[id]
    return Told.of(
        row["class"], *row["flag_names"].split(), late_cause=row["late_cause"], causes=tuple(report.causes.get(id, ()))
    )


@pytest.mark.parametrize("event", ["reconciliation"])
@pytest.mark.parametrize("kind", KINDS)
def test_cell_of_a_reconciliation(judged: tuple[Lived, Report], kind: str, event: str) -> None:
    """The report has the right class, flags and causes for every life below. Nothing is lost."""
    lived, report = judged
    told = {life: {told_of(report, id) for id in by_kind[kind]} for life, by_kind in lived.ids.items()}
    assert told == {life: {wanted(kind, life)} for life in TOLD}


@pytest.mark.parametrize("kind", KINDS)
def test_lateness_counts_from_the_newest_due_time(judged: tuple[Lived, Report], kind: str) -> None:
    """Also after a PATCH, an extension and an operation that moved it."""
    lived, report = judged
    for id in (id for life in ON_TIME for id in lived.ids[life][kind]):
        row = report.rows[id]
        assert row["asked_due_ms"] == lived.due_ms[id]
        assert 0 <= row["late_ms"] == row["first_ms"] - lived.due_ms[id]


def test_what_was_replaced_is_cancelled(judged: tuple[Lived, Report]) -> None:
    """In each life, the message that lost its key is cancelled and never lost."""
    lived, report = judged
    for life, topics in lived.topics.items():
        before = [row for row in report.of_topic(topics["replaced"]) if row["id"] not in lived.ids[life]["replaced"]]
        assert [told_of(report, row["id"]) for row in before] == [Told.of("cancelled")], life


def test_no_kind_has_a_message_that_no_client_asked_for(judged: tuple[Lived, Report]) -> None:
    """A key, a batch or an `Idempotency-Key` that was sent twice made each message once."""
    lived, report = judged
    for life, topics in lived.topics.items():
        for kind, topic in topics.items():
            assert len(report.of_topic(topic)) == len(lived.ids[life][kind]) + (kind == "replaced"), topic


def test_no_promise_is_broken(judged: tuple[Lived, Report]) -> None:
    """Nothing is lost, to be sent again or to be taken back. Each receipt matches a message or is refused, and each
    acknowledged id matches one."""
    document = judged[1].document
    assert document["promises_broken"] == document["problems"] == []
    assert set(document["lost"].values()) == {0}
    assert document["repairs"] == {"redeliver": 0, "suppress": 0}
    receipts, acknowledged = document["receipts"], document["acknowledged"]
    assert receipts["matched"] + receipts["refused"] == receipts["rows"]
    assert acknowledged["matched"] == acknowledged["rows"] == len(judged[0].all())
