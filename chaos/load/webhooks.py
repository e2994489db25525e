"""Webhooks received under chaos, and the nodes' own accounts of them.

The receiver's log decides what was delivered. Every request becomes a `HandedOver` when it is read, before it is
answered. Only the leader knows when it began a push. Its delivery log has that, written before the first byte left, and
is read after the run. A webhook without a start in any node's log breaks promise P.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from chaos.history.event import HandedOver
from chaos.history.history import History
from chaos.plan.load_plan import Plan
from cli.local.local_nodes import LOOPBACK
from hourwheel.webhook_receiver import Receiver, Reply, Request
from storage.file.delivery_file import delivery_files
from storage.file.disk import Disk
from storage.format.message_id import encode_ids
from storage.format.rows import HEADER_SIZE, take_rows
from storage.record.delivery_record import DELIVERY, PUSH, START, sound

#: The settings that let a node push to this machine.
PUSH_SETTINGS: Final = {"push": {"allow": ["127.0.0.0/8"]}}
#: The lease of a push is this much longer than the attempt's timeout.
LEASE_MORE_MS: Final = 5_000
REFUSED: Final = 500

Name = tuple[str, int, int]  # (message id, term, attempt): names one hand-over


class Webhooks:
    """Receives pushes at `host` and records each as a HandedOver. A share of them, `plan.push_fail_share`, is answered
    500. Use as `async with`."""

    def __init__(self, plan: Plan, history: History, host: str = LOOPBACK) -> None:
        self._plan, self._history, self._host = plan, history, host
        self._random = np.random.default_rng(plan.seed + 2)
        self._receiver = Receiver(self._receive)
        self.url = ""

    async def __aenter__(self) -> "Webhooks":
        port = await self._receiver.listen(self._host, 0)
        self.url = f"http://{self._host}:{port}/"
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._receiver.close()

    def topic(self) -> dict[str, object]:
        """The settings of the topic that pushes here."""
        plan = self._plan
        retry = {"min_backoff": plan.push_backoff_ms, "max_backoff": plan.push_backoff_ms, "max_attempts": 1_000}
        target = {"url": self.url, "timeout": plan.push_timeout_ms}
        return {"mode": "push", "target": target, "retry": retry, "handover": plan.handover}

    def _receive(self, port: int, request: Request) -> Reply:
        headers = request.headers
        due_ms = round(datetime.fromisoformat(headers["hourwheel-due"]).timestamp() * 1000)
        status = REFUSED if self._random.random() < self._plan.push_fail_share else 200
        message_id = headers["webhook-id"]
        attempt, term = int(headers["hourwheel-attempt"]), int(headers["hourwheel-term"])
        self._history.record(
            HandedOver(
                **self._history.stamp(),
                number=int(request.body),
                message_id=message_id,
                term=term,
                attempt=attempt,
                due_ms=due_ms,
                asked_due_ms=due_ms,
                handed_over_ms=0,
                leased_until_ms=0,
                node="",
                connection=f"push {message_id} {term} {attempt}",
                response=1,
                status=status,
            )
        )
        return Reply(status, self._plan.push_answer_ms / 1000)


def starts(data_paths: Mapping[str, Path], kept: Iterable[tuple[str, Path]] = ()) -> dict[Name, tuple[str, int]]:
    """The node and the moment of each push's begin, by the delivery logs of stopped nodes. `data_paths` are their
    directories by node id. `kept` are copies of delivery logs from directories that were damaged or emptied.

    Damaged rows are skipped: a power cut tears unsynced bytes.
    """
    found: dict[Name, tuple[str, int]] = {}
    for node_id, data_path in (*kept, *data_paths.items()):
        directory = data_path / "deliveries"
        for file in delivery_files(directory, Disk()):
            found.update(_starts(node_id, directory / file.name))
    return found


def _starts(node_id: str, path: Path) -> Iterator[tuple[Name, tuple[str, int]]]:
    data = path.read_bytes()[HEADER_SIZE:]
    rows = np.frombuffer(data, DELIVERY, len(data) // DELIVERY.itemsize)
    rows = take_rows(rows, np.flatnonzero(sound(rows)))
    begun = rows[(rows["kind"] == START) & (rows["mode"] == PUSH)]
    ids = encode_ids(0, begun["home"].copy(), begun["random"].copy()).astype("U26").tolist()
    names = zip(ids, begun["term"].tolist(), begun["attempt"].tolist(), strict=True)
    yield from zip(names, ((node_id, at_ms) for at_ms in begun["at_ms"].tolist()), strict=True)


def account(history: History, begun: Mapping[Name, tuple[str, int]], plan: Plan) -> History:
    """Return the history with the begin, the node and the lease of each push, from the nodes' own logs (`begun`, from
    `starts`). A push that is not in these logs keeps the zeros with which it was recorded."""
    lease_ms = plan.push_timeout_ms + LEASE_MORE_MS
    events = list(history.events)
    for place, event in enumerate(events):
        if isinstance(event, HandedOver) and event.pushed:
            start = begun.get((event.message_id, event.term, event.attempt))
            if start is not None:
                node_id, at_ms = start
                events[place] = msgspec.structs.replace(
                    event,
                    node=node_id,
                    handed_over_ms=at_ms,
                    leased_until_ms=at_ms + lease_ms,
                    gives_up_ms=at_ms + plan.push_timeout_ms,
                )
    return History(events)
