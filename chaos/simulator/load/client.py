"""The calls of `chaos.client.client` in the simulator: coroutines on the world's time, requests over its network."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

from msgspec.structs import replace

from api.port.forward import RequestKey
from api.port.ledger import LedgerQuery, MessageLedger
from api.port.message import MessageView
from api.port.port import (
    ANONYMOUS,
    CancelResult,
    Delivery,
    Extend,
    MessageIn,
    Port,
    PullIn,
    RescheduleResult,
    ScheduledOne,
    ScheduleResult,
)
from api.port.queries import OperationIn, OperationView
from chaos.client.caller import Caller
from chaos.client.client import Account, Many, Offer, Placed, Sums, Verb, View, Wish, WishAnswer, account_of, sums_of
from chaos.client.outcome import Outcome, refusal
from chaos.simulator.world.client import Client
from chaos.simulator.world.world import World
from storage.format.schedule_status import CONFLICT, FAILED, OUTCOMES, REPLAYED

T = TypeVar("T")

TIMEOUT_S: Final = 5.0
#: A client gives a poll up when its answer is this late, counted from the end of its wait.
WAIT_MORE_S: Final = 3.0
EVER: Final = LedgerQuery(from_ms=0, to_ms=1 << 42)


class Call(Generic[T]):
    """A call that a task awaits. `begin(done)` begins the call. Its owner calls `done(result)` once there is a result:
    then the task goes on, within the same step of virtual time."""

    def __init__(self, begin: Callable[[Callable[[T], None]], None]) -> None:
        self.begin = begin

    def __await__(self) -> Generator[Call[T], T, T]:
        return (yield self)


def start(task: Coroutine[Call[Any], Any, None]) -> None:
    """Run a task up to its first call, and on from there as its calls are done."""

    def go_on(told: Any) -> None:
        try:
            call = task.send(told)
        except StopIteration:
            return
        call.begin(go_on)

    go_on(None)


class Tasks:
    """Runs coroutines on a world's virtual time: a `chaos.client.client.Runner`."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now_s(self) -> float:
        """True time in seconds since the world began."""
        return self._world.now_s

    async def sleep(self, seconds: float) -> None:
        """Let this much time pass."""
        await Call[None](lambda done: self._world.after(seconds, done, None))

    def start(self, task: Coroutine[Any, Any, None]) -> None:
        """Run `task` beside the others, its first step at once."""
        start(task)

    def after(self, seconds: float, call: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        """Start `call(*args)` this many seconds from now."""
        self._world.after(seconds, lambda: start(call(*args)))


class PortClient:
    """A client of one node: a `chaos.client.client.Client`."""

    def __init__(self, client: Client) -> None:
        self.node = client.node
        self._client = client

    async def call(
        self,
        call: Callable[[Port], Awaitable[T]],
        label: str,
        *,
        pulls: bool = False,
        leader: bool = True,
        timeout_s: float = TIMEOUT_S,
    ) -> Outcome[T]:
        """Make a call of the node's service port (api.port). See `chaos.simulator.world.client.Client.call`."""
        more = {"label": label, "pulls": pulls, "leader": leader, "timeout_s": timeout_s}
        return await Call[Outcome[T]](lambda done: self._client.call(call, done, **more))  # type: ignore[arg-type]

    async def schedule(self, offers: Sequence[Offer]) -> Sequence[Outcome[Placed]]:
        """Send one request with these messages. Return one outcome for each offer, in order. Those under an
        `Idempotency-Key` are sent one by one."""
        if offers[0].once:
            return [await self._once(offer) for offer in offers]
        messages = [request_of(offer) for offer in offers]
        outcome = await self.call(lambda port: port.schedule(messages, ANONYMOUS), "schedule")
        if outcome.value is None:
            return [Outcome(outcome.kind, None, outcome.code)] * len(offers)
        return [_of_row(outcome.value, row) for row in range(len(offers))]

    async def _once(self, offer: Offer) -> Outcome[Placed]:
        message = request_of(offer)
        mark = hashlib.blake2b(message.body, digest_size=16).digest()
        key = RequestKey(f"once {offer.number}", mark)
        outcome = await self.call(lambda port: port.keyed(key).schedule_one(message, ANONYMOUS), "once")
        return outcome.read(lambda placed: Placed(placed.id, placed.due_ms, key.replayed))

    async def schedule_all(self, offers: Sequence[Offer], taken: Offer | None) -> Outcome[Sequence[Placed]]:
        """See chaos.client.client.Client."""
        messages = [request_of(offer) for offer in offers]
        if taken is not None:
            mark = hashlib.blake2b(messages[-1].body, digest_size=16).digest()
            messages[-1] = replace(messages[-1], key=request_of(taken).key, fingerprint=mark)
        outcome = await self._all_or_none(messages)
        return outcome.read(lambda result: [_of_row(result, row).result for row in range(len(offers))])

    async def wish(self, wish: Wish) -> Outcome[WishAnswer]:
        """See chaos.client.client.Client."""
        message = _wish(wish)
        outcome = await self.call(lambda port: port.schedule_one(message, ANONYMOUS), str(message.on_conflict))
        return outcome.read(_wish_answer)

    async def wish_all(self, wishes: Sequence[Wish]) -> Outcome[Sequence[WishAnswer]]:
        """See chaos.client.client.Client."""
        outcome = await self._all_or_none([_wish(wish) for wish in wishes])
        return outcome.read(lambda result: [*map(_wish_answer, _ones(result))])

    async def _all_or_none(self, messages: Sequence[MessageIn]) -> Outcome[ScheduleResult]:
        outcome = await self.call(lambda port: port.schedule_all(messages, ANONYMOUS), "atomic")
        if outcome.value is not None and {FAILED, CONFLICT} & {*outcome.value.status.tolist()}:
            return Outcome("refused", None, "invalid-field")  # the whole batch, as over HTTP
        return outcome

    async def pull(self, topic: str, most: int, wait_ms: int) -> Outcome[Sequence[Delivery]]:
        """Make a long poll: take up to `most` messages, and wait up to `wait_ms` for the first."""
        request = PullIn(topic, max=most, wait_ms=wait_ms, lease_ms=None)
        timeout_s = wait_ms / 1000 + WAIT_MORE_S
        return await self.call(
            lambda port: port.pull(request, ANONYMOUS), f"pull {topic}", pulls=True, timeout_s=timeout_s
        )

    async def ack(self, topic: str, receipts: Sequence[str]) -> Outcome[Sequence[str]]:
        """Return one result for each receipt."""
        return await self.call(lambda port: port.ack(topic, receipts, ANONYMOUS), "ack")

    async def nack(self, topic: str, receipts: Sequence[str], delay_ms: int | None) -> Outcome[Sequence[str]]:
        """Nack the deliveries of these receipts, so that the messages are due again after `delay_ms`. Return one result
        for each receipt."""
        return await self.call(lambda port: port.nack(topic, receipts, delay_ms=delay_ms, principal=ANONYMOUS), "nack")

    async def extend(self, topic: str, receipts: Sequence[str], lease_ms: int) -> Outcome[Sequence[str]]:
        """Let the leases of these receipts end `lease_ms` from now. Return one result for each receipt."""
        return await self.call(
            lambda port: port.extend(topic, receipts, lease_ms=lease_ms, principal=ANONYMOUS), "extend"
        )

    async def cancel(self, message_id: str) -> Outcome[CancelResult]:
        """Cancel a message."""
        return await self.call(lambda port: port.cancel(message_id, if_match=None, principal=ANONYMOUS), "cancel")

    async def change_many(
        self, kind: Any, topic: str, window: range, by_ms: int | None, rate: int | None
    ) -> Outcome[Many]:
        """See chaos.client.client.Client."""
        wish = OperationIn(
            kind=kind, topics=(topic,), from_ms=window.start, to_ms=window.stop, by_ms=by_ms, rate=rate, wait_s=0
        )  # fmt: skip
        return await self.begin(wish)

    async def begin(self, wish: OperationIn) -> Outcome[Many]:
        """Begin an operation."""
        outcome = await self.call(lambda port: port.begin_operation(wish, principal=ANONYMOUS), f"{wish.kind} many")
        return outcome.read(_many)

    async def running(self, kind: str) -> Outcome[int]:
        """How many operations of this kind have not ended."""
        outcome = await self.call(lambda port: port.operations(None, 100, principal=ANONYMOUS), "operations")
        return outcome.read(lambda page: sum(each.kind == kind and each.ended_ms is None for each in page.items))

    async def operation(self, name: str) -> Outcome[Many]:
        """See chaos.client.client.Client."""
        return (await self.call(lambda port: port.operation(name, principal=ANONYMOUS), "operation")).read(_many)

    async def change_operation(self, name: str, verb: Verb) -> Outcome[Many]:
        """See chaos.client.client.Client."""
        outcome = await self.call(lambda port: port.change_operation(name, verb, principal=ANONYMOUS), verb)
        return outcome.read(_many)

    async def reschedule(self, message_id: str, due_ms: int, if_match: int | None) -> Outcome[RescheduleResult]:
        """Give a message another due time."""
        return await self.call(
            lambda port: port.reschedule(
                message_id, due_ms=due_ms, delay_ms=None, if_match=if_match, principal=ANONYMOUS
            ),
            "reschedule",
        )

    async def look(self, message_id: str, *, ledger: bool) -> Outcome[tuple[View, Account | None]]:
        """GET a message. With `ledger` ask for the ledger's account too, else the second value is None."""

        async def ask(port: Port) -> tuple[View, Account | None]:
            view = _view(await port.message(message_id, local=False, principal=ANONYMOUS))
            return view, ledger_of(await port.message_ledger(message_id)) if ledger else None

        return await self.call(ask, "account" if ledger else "look")

    async def sums(self) -> Outcome[Sums]:
        """Return the ledger's sums of all time."""
        outcome = await self.call(lambda port: port.ledger_summary(EVER), "sums")
        return outcome.read(lambda found: sums_of(found.counts, found.sight.complete))


def caller_of(world: World, name: str) -> Caller[PortClient]:
    """A caller with a client of every node, on the world's time. Its draws follow from `name`."""
    clients = [PortClient(world.client(node_id)) for node_id in sorted(world.processes)]
    return Caller(clients, Tasks(world), world.random(name))


def request_of(offer: Offer) -> MessageIn:
    """The schedule request for an offer. It is the same each time, so that a key's fingerprint fits."""
    mark = hashlib.blake2b(f"{offer.topic} {offer.number} {offer.asked_due_ms}".encode(), digest_size=16).digest()
    return MessageIn(
        topic=offer.topic,
        body=str(offer.number).encode(),
        due_ms=offer.asked_due_ms,
        key=f"k{offer.number}" if offer.keyed else None,
        fingerprint=mark if offer.keyed else None,
    )


def _of_row(result: ScheduleResult, row: int) -> Outcome[Placed]:
    """The outcome of the message at this row of a schedule request's result."""
    if result.status[row] == FAILED:
        found = refusal(result.problems[row].code)
        return found if found.not_done else Outcome("unknown", None, found.code)
    if result.status[row] == CONFLICT:
        return Outcome("refused", None, "key-conflict")
    replayed = bool(result.status[row] == REPLAYED)
    return Outcome("ok", Placed(result.ids[row].decode(), int(result.due_ms[row]), replayed))


def _ones(result: ScheduleResult) -> Iterator[ScheduledOne]:
    """The results of a batch that was written, one by one."""
    columns = (result.ids.tolist(), result.due_ms.tolist(), result.status.tolist())
    for row, (id, due_ms, status) in enumerate(zip(*columns, strict=True)):
        yield ScheduledOne(id.decode(), due_ms, status, result.superseded.get(row))


def _wish(wish: Wish) -> MessageIn:
    body = str(wish.number).encode()
    return MessageIn(
        wish.topic,
        body,
        due_ms=wish.due_ms,
        key=wish.key,
        on_conflict="extend" if wish.extends else "replace",
        fingerprint=hashlib.blake2b(body, digest_size=16).digest(),
        extend=Extend(wish.max_wait_ms, due_only=True) if wish.extends else None,
    )


def _wish_answer(found: ScheduledOne) -> WishAnswer:
    before = found.superseded
    if before is None:
        return WishAnswer(found.id, found.due_ms, OUTCOMES[found.status])
    previous = (before.id, before.prior, before.attempts_made, before.revision)
    return WishAnswer(found.id, found.due_ms, OUTCOMES[found.status], *previous)


def _many(view: OperationView) -> Many:
    return Many(view.id, view.matched is not None, view.changed, view.skipped["leased"])


def _view(view: MessageView) -> View:
    told = tuple((each.event, each.at_ms, each.node, each.term, each.attempt) for each in view.history)
    return View(view.state, view.due_ms, view.attempt, view.handed_over_ms, view.lateness_ms, told)


def ledger_of(found: MessageLedger) -> Account:
    """The ledger's account of a message."""
    return account_of(found.entry.kind, len(found.hand_overs), found.sight.complete, found.entry.flags)
