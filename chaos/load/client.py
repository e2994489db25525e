"""The calls of `chaos.client.client` over HTTP, and tasks of asyncio.

A call whose connection was refused had no effect. After a broken connection, a timeout, or an answer without a result
its outcome is unknown.

If a kept connection breaks, aiohttp sends a GET or a DELETE again by itself, and shows only the answer to the second
try. If that is a refusal, the first try may have had an effect all the same.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

import aiohttp
import msgspec

from api.port.port import CancelResult, Delivery, RescheduleResult
from api.port.timestamp import parse_time
from chaos.client.caller import Caller, every_node
from chaos.client.client import Account, Many, Offer, Placed, Sums, Verb, View, Wish, WishAnswer, account_of, sums_of
from chaos.client.outcome import Outcome, refusal, refused
from cli.local.local_nodes import LocalNode
from hourwheel.core.problem import read_problem

T = TypeVar("T")

#: The begin of the ledger's window: long before any run.
EVER: Final = "2020-01-01T00:00:00Z"


_JSON: Final = msgspec.json.Decoder(dict[str, Any])


class Tasks:
    """Runs clients' tasks in an asyncio task group; implements `chaos.client.client.Runner`."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._running: set[asyncio.Task[None]] = set()

    def now_s(self) -> float:
        """The monotonic time in seconds."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        await asyncio.sleep(seconds)

    def start(self, task: Coroutine[Any, Any, None]) -> None:
        """Run `task` beside the others."""
        running = self._group.create_task(task)
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    def after(self, seconds: float, call: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start `call(*args)` after `seconds`."""

        async def later() -> None:
            await asyncio.sleep(seconds)
            await call(*args)

        self.start(later())

    def cancel(self) -> None:
        """Cancel all tasks. The requests that they have sent stay without an outcome."""
        for task in self._running:
            task.cancel()


def _cancelled(payload: bytes) -> CancelResult:
    document = _JSON.decode(payload)
    return CancelResult(document["id"], document["attempts_made"], document["prior"])


def _many(payload: bytes) -> Many:
    document = _JSON.decode(payload)
    return Many(document["id"], document["state"] == "done", document["changed"], document["skipped"]["leased"])


class HttpClient:
    """A client of one node over HTTP; implements `chaos.client.client.Client`. `http` has to be made by `session`
    (below), so that the tries of each request are counted."""

    def __init__(self, node: LocalNode, http: aiohttp.ClientSession) -> None:
        self.node = node.node_id
        self._url, self._http = node.url, http

    async def _ask(
        self, method: str, path: str, read: Callable[[bytes], T], wait_s: float = 0.0, **more: Any
    ) -> Outcome[T]:
        """Send one request. Return its outcome, with the value that `read` makes of the body of a success. `wait_s` is
        the time for which the node may hold its answer back; it is added to the session's timeout. Raises what `read`
        raises."""
        total_s = self._http.timeout.total
        timeout = aiohttp.ClientTimeout(total=None if total_s is None else total_s + wait_s)
        tries: list[str] = []
        more |= {"timeout": timeout, "trace_request_ctx": tries}
        try:
            async with self._http.request(method, self._url + path, **more) as answer:
                payload = await answer.read()
        except aiohttp.ClientConnectorError:
            return Outcome("unknown" if tries else "refused")
        except (aiohttp.ClientError, TimeoutError):
            return Outcome("unknown")
        if answer.status < 300:
            return Outcome("ok", read(payload))
        return refused(read_problem(answer.status, answer.headers, payload)).after(len(tries) > 1)

    async def schedule(self, offers: Sequence[Offer]) -> Sequence[Outcome[Placed]]:
        """See `Client.schedule`. One offer goes to `/v1/messages`, several go to `/v1/messages/batch`."""
        if offers[0].once:
            return [await self._once(offer) for offer in offers]
        single = len(offers) == 1
        path, kind = ("", "application/json") if single else ("/batch", "application/x-ndjson")
        payload = b"\n".join(msgspec.json.encode(_document(offer)) for offer in offers)
        outcome = await self._ask(
            "POST", f"/v1/messages{path}", _JSON.decode_lines, data=payload, headers={"Content-Type": kind}
        )
        if outcome.value is None:
            return [Outcome(outcome.kind, None, outcome.code)] * len(offers)
        if len(outcome.value) != len(offers):
            return [Outcome("unknown")] * len(offers)
        return [of_line(line) for line in outcome.value]

    async def _once(self, offer: Offer) -> Outcome[Placed]:
        headers = {"Idempotency-Key": f"once {offer.number}"}
        outcome = await self._ask("POST", "/v1/messages", _JSON.decode, json=_document(offer), headers=headers)
        return outcome.read(lambda found: of_line(found).result)

    async def schedule_all(self, offers: Sequence[Offer], taken: Offer | None) -> Outcome[Sequence[Placed]]:
        """See `Client.schedule_all`."""
        documents = [_document(offer) for offer in offers]
        if taken is not None:
            documents[-1]["key"] = _document(taken)["key"]
        return (await self._all_or_none(documents)).read(lambda lines: [of_line(line).result for line in lines])

    async def wish(self, wish: Wish) -> Outcome[WishAnswer]:
        """See `Client.wish`."""
        return (await self._ask("POST", "/v1/messages", _JSON.decode, json=_wish(wish))).read(_wish_answer)

    async def wish_all(self, wishes: Sequence[Wish]) -> Outcome[Sequence[WishAnswer]]:
        """See `Client.wish_all`."""
        return (await self._all_or_none([_wish(wish) for wish in wishes])).read(
            lambda lines: [*map(_wish_answer, lines)]
        )

    async def _all_or_none(self, documents: Sequence[dict[str, Any]]) -> Outcome[list[dict[str, Any]]]:
        return await self._ask(
            "POST",
            "/v1/messages/batch?atomic=true",
            _JSON.decode_lines,
            data=b"\n".join(map(msgspec.json.encode, documents)),
            headers={"Content-Type": "application/x-ndjson"},
        )

    async def pull(self, topic: str, most: int, wait_ms: int) -> Outcome[Sequence[Delivery]]:
        """See `Client.pull`."""
        asked = {"max": most, "wait": wait_ms}
        outcome = await self._ask("POST", f"/v1/topics/{topic}/pull", _JSON.decode, wait_ms / 1000, json=asked)
        return outcome.read(lambda found: [_delivery(each) for each in found["messages"]])

    async def ack(self, topic: str, receipts: Sequence[str]) -> Outcome[Sequence[str]]:
        """See `Client.ack`."""
        return await self._settle(topic, "ack", receipts)

    async def nack(self, topic: str, receipts: Sequence[str], delay_ms: int | None) -> Outcome[Sequence[str]]:
        """See `Client.nack`."""
        return await self._settle(topic, "nack", receipts, **({} if delay_ms is None else {"delay": delay_ms}))

    async def extend(self, topic: str, receipts: Sequence[str], lease_ms: int) -> Outcome[Sequence[str]]:
        """See `Client.extend`."""
        return await self._settle(topic, "extend", receipts, lease=lease_ms)

    async def _settle(self, topic: str, word: str, receipts: Sequence[str], **more: int) -> Outcome[Sequence[str]]:
        asked = {"receipts": list(receipts), **more}
        outcome = await self._ask("POST", f"/v1/topics/{topic}/{word}", _JSON.decode, json=asked)
        return outcome.read(lambda found: [each["result"] for each in found["results"]])

    async def cancel(self, message_id: str) -> Outcome[CancelResult]:
        """See `Client.cancel`."""
        return await self._ask("DELETE", f"/v1/messages/{message_id}", _cancelled)

    async def change_many(
        self, kind: str, topic: str, window: range, by_ms: int | None, rate: int | None
    ) -> Outcome[Many]:
        """See `Client.change_many`. It is waited for a second."""
        wish: dict[str, Any] = {"kind": kind, "topic": topic, "from": window.start, "to": window.stop}
        wish |= {name: value for name, value in (("by", by_ms), ("rate", rate)) if value is not None}
        return await self._ask("POST", "/v1/operations", _many, 1.0, json=wish)

    async def operation(self, name: str) -> Outcome[Many]:
        """See `Client.operation`."""
        return await self._ask("GET", f"/v1/operations/{name}", _many)

    async def change_operation(self, name: str, verb: Verb) -> Outcome[Many]:
        """See `Client.change_operation`."""
        return await self._ask("POST", f"/v1/operations/{name}/{verb}", _many)

    async def reschedule(self, message_id: str, due_ms: int, if_match: int | None) -> Outcome[RescheduleResult]:
        """See `Client.reschedule`."""
        more: dict[str, Any] = {"json": {"deliver_at": due_ms}}
        if if_match is not None:
            more["headers"] = {"If-Match": f'"{if_match}"'}
        outcome = await self._ask("PATCH", f"/v1/messages/{message_id}", _JSON.decode, **more)
        return outcome.read(
            lambda found: RescheduleResult(found["id"], found["topic"], parse_time(found["due"]), found["revision"])
        )

    async def look(self, message_id: str, *, ledger: bool) -> Outcome[tuple[View, Account | None]]:
        """See `Client.look`."""
        asked = {"ledger": "true" if ledger else "false"}
        outcome = await self._ask("GET", f"/v1/messages/{message_id}", _JSON.decode, params=asked)
        return outcome.read(lambda found: (_view(found), _account(found.get("ledger"))))

    async def sums(self) -> Outcome[Sums]:
        """See `Client.sums`."""
        return (await self._ask("GET", "/v1/ledger/summary", _JSON.decode, params={"from": EVER})).read(_sums)


def session(total_s: float, *, connections: int = 100) -> aiohttp.ClientSession:
    """Return a session for HttpClient, with at most `connections` connections (0: no limit) and `total_s` for each
    request. It notes in the context of a request each time that the request is sent."""

    async def sent(http: aiohttp.ClientSession, context: Any, params: aiohttp.TraceRequestHeadersSentParams) -> None:
        context.trace_request_ctx.append(params.method)

    trace = aiohttp.TraceConfig()
    trace.on_request_headers_sent.append(sent)
    connector, timeout = aiohttp.TCPConnector(limit=connections), aiohttp.ClientTimeout(total=total_s)
    return aiohttp.ClientSession(connector=connector, timeout=timeout, trace_configs=[trace])


def caller_of(
    nodes: Iterable[LocalNode],
    http: aiohttp.ClientSession,
    tasks: Tasks,
    name: str,
    is_member: Callable[[str], bool] = every_node,
) -> Caller[HttpClient]:
    """Return a Caller with a client for each of these nodes. `name` seeds its random choices."""
    return Caller([HttpClient(node, http) for node in nodes], tasks, random.Random(name), is_member)


def of_line(line: dict[str, Any]) -> Outcome[Placed]:
    """Return the outcome of one message, from the body of a 201, from a line of a batch's answer, or from a problem."""
    if line.get("id") and line.get("due"):
        return Outcome("ok", Placed(line["id"], parse_time(line["due"]), line.get("replayed", False)))
    code = line.get("error", line).get("code", "")
    return refusal(code) if code else Outcome("unknown")


def _document(offer: Offer) -> dict[str, object]:
    """Return the fields of a message in a request. They are the same for every try."""
    fields: dict[str, object] = {"topic": offer.topic, "body": offer.number, "deliver_at": offer.asked_due_ms}
    return fields | {"key": f"k{offer.number}"} if offer.keyed else fields


def _wish(wish: Wish) -> dict[str, Any]:
    document = _document(Offer(wish.number, wish.topic, wish.due_ms, keyed=False)) | {"key": wish.key}
    if wish.extends:
        return document | {"on_conflict": "extend", "extend": {"max_wait": wish.max_wait_ms, "body": "first"}}
    return document | {"on_conflict": "replace"}


def _wish_answer(found: dict[str, Any]) -> WishAnswer:
    placed, before = of_line(found).result, found.get("previous")
    if before is None:
        return WishAnswer(placed.id, placed.due_ms, found.get("outcome", "created"))  # a line leaves `created` out
    previous = (before["id"], before["prior"], before["attempts_made"], found["revision"])
    return WishAnswer(placed.id, placed.due_ms, found["outcome"], *previous)


def _delivery(found: dict[str, Any]) -> Delivery:
    """Return a delivery from a message of a pull's answer. Its body is the offer's number."""
    told = {name: found[name] for name in ("id", "receipt", "attempt", "term", "topic")}
    for name in ("due", "asked_due", "created", "handed_over", "leased_until"):
        told[f"{name}_ms"] = parse_time(found[name])
    return Delivery(**told, body=str(found["body"]).encode())


def _view(found: dict[str, Any]) -> View:
    told = [(each["event"], _ms(each["at"]), each["node"], each["term"], each["attempt"]) for each in found["history"]]
    handed_over_ms = _ms(found["handed_over"])
    due_ms, late_ms = parse_time(found["due"]), found["lateness_ms"]
    return View(found["state"], due_ms, found["attempt"], handed_over_ms, late_ms, tuple(told))


def _account(words: dict[str, Any] | None) -> Account | None:
    if words is None or words["class"] is None:
        return None
    return account_of(words["class"], len(words["deliveries"]), words["window"]["complete"], words["flags"])


def _sums(found: dict[str, Any]) -> Sums:
    return sums_of(found, found["window"]["complete"])


def _ms(text: str | None) -> int | None:
    return None if text is None else parse_time(text)
