"""The part of tests.api.memory_port that is about many messages: lists, counts, and the dead ones."""

import msgspec

from api.port.port import MessageIn, Principal
from api.port.problem import Problem
from api.port.queries import (
    CountQuery,
    DeadMessage,
    DeadPage,
    DeadQuery,
    Histogram,
    HistogramBucket,
    MessageCount,
    OperationIn,
    OperationPage,
    OperationVerb,
    OperationView,
    WheelHour,
    WheelQuery,
    WheelSecond,
    Wish,
)
from tests.api.memory_cluster import MemoryCluster

NOW_MS = 1_795_227_020_125  # the port's clock unless a test moves it: 2026-11-21T02:10:20.125Z


class Held(msgspec.Struct):
    """A scheduled message as the port keeps it."""

    id: str
    message: MessageIn
    due_ms: int
    state: str = "scheduled"
    attempt: int = 0
    revision: int = 1
    leased_until_ms: int = 0


class MemoryQueries(MemoryCluster):
    """Answers from `held`, the messages by id. The clock stands at `clock_ms`."""

    def __init__(self, node_id: str) -> None:
        super().__init__(node_id)
        self.clock_ms = NOW_MS
        self.held: dict[str, Held] = {}
        self.begun: dict[str, OperationView] = {}

    @staticmethod
    def _check_topic(name: str | None) -> None:
        if name == "nowhere":
            raise Problem("unknown-topic", "there is no topic nowhere")

    def _matching(self, query: CountQuery | DeadQuery) -> list[Held]:
        self._check_topic(query.topic)
        return [
            held
            for held in self.held.values()
            if query.topic in (None, held.message.topic)
            and (query.from_ms is None or query.from_ms <= held.due_ms)
            and (query.to_ms is None or held.due_ms < query.to_ms)
            and (query.tag is None or query.tag in held.message.tags)
        ]

    def _counted(self, query: CountQuery) -> list[Held]:
        def state(held: Held) -> str:
            return "ready" if held.state == "scheduled" and held.due_ms <= self.clock_ms else held.state

        return [held for held in self._matching(query) if state(held) in query.states]

    async def count(self, query: CountQuery, *, principal: Principal) -> MessageCount:
        return MessageCount(len(self._counted(query)))

    async def histogram(self, query: CountQuery, *, step_ms: int | None, principal: Principal) -> Histogram:
        step_ms = step_ms or 900_000
        due = [held.due_ms // step_ms * step_ms for held in self._counted(query)]
        return Histogram(step_ms, [HistogramBucket(from_ms, due.count(from_ms)) for from_ms in sorted(set(due))])

    async def wheel(self, query: WheelQuery, *, principal: Principal) -> WheelHour:
        """Every message is one unit of its second."""
        hour = (self.clock_ms if query.at_ms is None else query.at_ms) // 3_600_000
        found = [held for held in self._matching(CountQuery(topic=query.topic)) if held.due_ms // 3_600_000 == hour]
        seconds = sorted({held.due_ms // 1000 for held in found})
        rows = [[held.state == "scheduled" for held in found if held.due_ms // 1000 == second] for second in seconds]
        shown = [WheelSecond(second, sum(row), len(row)) for second, row in zip(seconds, rows, strict=True)]
        return WheelHour(hour * 3_600_000, self.clock_ms // 1000, shown)

    async def dead(self, query: DeadQuery, *, principal: Principal) -> DeadPage:
        """The cursor is how many went before."""
        start = int(query.cursor or 0)
        found = self._dead(query)
        end = start + query.limit
        return DeadPage([self._dead_view(each) for each in found[start:end]], str(end) if end < len(found) else None)

    def _dead(self, query: DeadQuery) -> list[Held]:
        return [held for held in self._matching(query) if held.state == "dead"]

    def _dead_view(self, held: Held) -> DeadMessage:
        return DeadMessage(
            id=held.id,
            due_ms=held.due_ms,
            asked_due_ms=held.due_ms,
            died_ms=self.clock_ms,
            reason="nacked",
            attempts=held.attempt,
            tags=held.message.tags,
            key=held.message.key,
        )

    async def begin_operation(self, wish: OperationIn, *, principal: Principal) -> OperationView:
        """It ends at once, unless its note asks it to run."""
        found = self._wanted(wish)
        if not wish.dry_run:
            for held in found:
                held.state = {"cancel": "cancelled", "redrive": "scheduled"}.get(wish.kind, held.state)
        runs = wish.note == "runs"
        view = OperationView(
            **{name: getattr(wish, name) for name in Wish.__struct_fields__},
            id=f"op-{1234 + len(self.begun)}", state="running" if runs else "done", begun_ms=self.clock_ms,
            ended_ms=None if runs else self.clock_ms, matched=None if runs else len(found), changed=len(found),
            prior={"none": len(found), "known": 0, "unknown": 0},
            skipped=dict.fromkeys(("leased", "settled", "gone", "key_taken"), 0), index=1236, progress=1.0,
        )  # fmt: skip
        if not wish.dry_run:
            self.begun[view.id] = view
        return view

    def _wanted(self, wish: OperationIn) -> list[Held]:
        if wish.kind == "redrive":
            queries = [
                DeadQuery(topic=name, from_ms=wish.from_ms, to_ms=wish.to_ms, tag=wish.tag)
                for name in wish.topics or ()
            ]
            return [held for query in queries for held in self._dead(query)]
        names = (None,) if wish.topics is None else wish.topics
        counts = [CountQuery(topic=name, from_ms=wish.from_ms, to_ms=wish.to_ms, tag=wish.tag) for name in names]
        return [held for query in counts for held in self._counted(query)]

    async def operation(self, id: str, *, principal: Principal) -> OperationView:
        if id not in self.begun:
            raise Problem("unknown-operation", f"there is no operation {id}")
        return self.begun[id]

    async def change_operation(self, id: str, verb: OperationVerb, *, principal: Principal) -> OperationView:
        """It is what the verb says. One that nobody began is a shift that runs."""
        states = {"pause": "paused", "resume": "running", "abort": "aborted"}
        if id not in self.begun:
            wish = OperationIn(kind="shift", topics=("orders",), by_ms=-1_800_000, rate=1, note="runs")
            begun = await self.begin_operation(wish, principal=principal)
            self.begun = {id: msgspec.structs.replace(begun, id=id)}
        self.begun[id] = msgspec.structs.replace(await self.operation(id, principal=principal), state=states[verb])
        return self.begun[id]

    async def operations(self, after: str | None, most: int, *, principal: Principal) -> OperationPage:
        """The newest first."""
        known = list(reversed(self.begun.values()))
        begin = 0 if after is None else [each.id for each in known].index(after) + 1
        rest = known[begin:]
        return OperationPage(rest[:most], rest[most - 1].id if len(rest) > most else None)
