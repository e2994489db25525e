"""Virtual time: one heap of events for the whole world, and an event loop for each node, driven by that heap.

A node is written for asyncio, so the simulator gives it an event loop. `SimLoop` has the methods that a node calls
(call soon, call later, tasks, futures, the executor, connections). Things happen only in the order of the world's heap.

    Scheduler.run --> event (time, number) --> SimLoop: a timer is due, bytes arrived, a job ended --> turn: all that
                                               is ready runs, at one moment of virtual time

Events of the same moment run in the order they were made, so a run follows from its seed alone. Time passes only
between turns. A turn's work is charged (cost.py), and its node does nothing until that time is over. Callbacks made
ready meanwhile wait, because a real loop looks at its sockets and timers between two rounds of callbacks. So a charge
covers one round, and work that gives way between its parts is charged in parts. A job of a thread ends later by its
charge. A node that always has a callback ready is charged a little time, so that it cannot stop the world's clock.

A paused node's events wait. When it wakes, chance decides if its timers or the arrivals run first. A killed node's
events never run. Its loop is dead, and its coroutines are closed: what they still try outside themselves is refused.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from typing import Any, TypeVar

from chaos.simulator.time.clock import SimClock
from chaos.simulator.time.cost import Meter

T = TypeVar("T")

#: The most rounds of callbacks in a turn. Then ready callbacks wait for RESTLESS_S.
ROUNDS_MAX = 64
RESTLESS_S = 0.0001
#: A node rests once its charges add up to this. With a rest for each charge, most events would be ends of rests.
CHARGED_S = 0.001
#: Timers go off this much later, more than rounding takes away. A callback that finds the clock a hair before its time
#: would wait for no time at all, for ever.
ROUNDING_S = 1e-9
#: How often closing a coroutine is tried: a `finally` that waits suspends it again.
CLOSINGS_MAX = 100
#: After this many events at one moment TimeStandsStill is raised.
STILL_MAX = 100_000
#: A turn runs a handle of asyncio's or, cheaper, a call from outside.
_Ready = asyncio.Handle | tuple[Callable[..., object], tuple[Any, ...]]


class TimeStandsStill(Exception):
    """Events make events at the same moment without end: a mistake of the simulator, or a loop in a node."""


class Gone(BaseException):
    """Raised in the code of a simulated process that ended by a kill, power cut or crash. It is a BaseException, so
    that no `except Exception` catches it and goes on."""


class Scheduler:
    """The heap of the world's events. `now` is true time in seconds since the world began. It only grows."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self._heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, time_s: float, call: Callable[..., object], *args: Any) -> None:
        """Make the call at this true time, or now if that time has passed."""
        self._number += 1
        heapq.heappush(self._heap, (time_s if time_s > self.now else self.now, self._number, call, args))

    def after(self, seconds: float, call: Callable[..., object], *args: Any) -> None:
        """Make the call this many seconds from now."""
        self.at(self.now + seconds, call, *args)

    def run(self, until_s: float, wanted: Callable[[], bool] | None = None) -> bool:
        """Let time pass up to `until_s`. True as soon as `wanted` holds after an event, False if it never did. Raises
        TimeStandsStill."""
        heap, before_s, since = self._heap, -1.0, 0
        while heap and heap[0][0] <= until_s:
            self.now, _number, call, args = heapq.heappop(heap)
            self.events += 1
            if self.now != before_s:
                before_s, since = self.now, self.events
            elif self.events - since > STILL_MAX:
                raise TimeStandsStill(f"at {self.now} s; the last event was {call}")
            call(*args)
            if wanted is not None and wanted():
                return True
        self.now = max(self.now, until_s)
        return False


class SimLoop(asyncio.AbstractEventLoop):
    """The event loop of one incarnation of a node: from one start of its process to its end.

    `complain(context)` gets what asyncio would log: callbacks and tasks that failed. `job_s()` draws how many seconds a
    job in the executor takes. `connector` makes connections (network/stream.py).
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: SimClock,
        *,
        name: str,
        chance: random.Random,
        complain: Callable[[dict[str, Any]], None],
        job_s: Callable[[], float],
        weight: int = 1,
    ) -> None:
        self.name = name
        self.meter = Meter(weight)
        self.on_charged: Callable[[float, dict[str, float]], None] = lambda seconds, by: None
        """Called with each charge of a turn: its seconds, and the milliseconds of each kind of work."""
        self._thread_meter = Meter(weight)
        self.build: Callable[[], AbstractContextManager[None]] | None = None
        """Makes the context of a step or job that runs as another build (build/older_build.py). None: as this one."""
        self.dead = False
        self.paused = False
        self.connector: Callable[[SimLoop, Callable[[], Any], str, int], Coroutine[Any, Any, Any]] | None = None
        self._scheduler = scheduler
        self._clock = clock
        self._chance = chance
        self._complain = complain
        self._job_s = job_s
        self._ready: deque[_Ready] = deque()
        self._due: list[_Ready] = []  # while paused
        self._arrived: list[_Ready] = []  # while paused
        self._left: set[asyncio.Task[Any]] = set()  # tasks of a dead loop: nothing else refers to one that never began
        self._turning = False
        self._resting = False
        self._jobs: dict[int, Callable[[], None]] = {}
        self._job_number = 0

    # -- time and callbacks, as asyncio asks for them

    def time(self) -> float:
        """The host's monotonic clock."""
        return self._clock.monotonic()

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        """Call the callback in the turn that runs now, or in one that begins once the node does not rest for a
        charge."""
        handle = asyncio.Handle(callback, args, self, context)
        if not self.dead:
            self._ready.append(handle)
            if not self._turning and not self._resting:
                self._resting = True
                self._scheduler.at(self._scheduler.now, self._rested)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Do what `call_soon` does: there are no threads."""
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call after `delay` seconds of this host's clock."""
        return self.call_at(self._clock.monotonic() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call when this host's clock shows `when`."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.dead:
            self._scheduler.at(self._clock.true_s(when) + ROUNDING_S, self._timer, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer stays in the heap and is passed over."""

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        """A task of this loop. On a dead loop it never begins."""
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        if self.dead:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coro.close()
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Run `func` at one moment of the drawn time of the job (`job_s`). Set the future's result when that time is
        over."""
        future: asyncio.Future[T] = self.create_future()

        def tell(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)  # type: ignore[arg-type]
            else:
                future.set_exception(error)

        self.job(lambda: func(*args), tell)
        return future

    async def create_connection(self, protocol_factory: Callable[[], Any], host: str, port: int) -> Any:  # type: ignore[override]
        """A connection to a simulated host. Raises OSError. Waits for ever if the host does not answer."""
        assert self.connector is not None, "no network"
        return await self.connector(self, protocol_factory, host, port)

    async def connect_accepted_socket(self, protocol_factory: Callable[[], Any], sock: Any) -> Any:  # type: ignore[override]
        """Pass the bytes of `sock`, a StreamTransport that a listener got, to a new protocol."""
        protocol = protocol_factory()
        sock.begin(protocol)
        return sock, protocol

    def get_debug(self) -> bool:
        """False. asyncio asks for it."""
        return False

    def is_running(self) -> bool:
        """True during a turn. asyncio asks for it."""
        return self._turning

    def is_closed(self) -> bool:
        """False: a dead loop takes calls and drops them, because the closing at a kill may still make some."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Pass what asyncio would log to `complain`."""
        if not self.dead:
            self._complain(context)

    # -- called by the world

    def arrive(self, call: Callable[..., object], *args: Any) -> None:
        """Run a call from outside, such as arrived bytes, in the next turn, or when a paused node wakes."""
        if self.dead:
            return
        if self.paused:
            self._arrived.append((call, args))
        else:
            self._ready.append((call, args))
            if not self._turning and not self._resting:
                self._turn()

    def job(self, run: Callable[[], T], tell: Callable[[T | None, BaseException | None], None]) -> None:
        """Run a thread's job: `run` is called at one moment within the drawn time of the job. At the end `tell(result,
        error)` runs on the loop."""
        if self.dead:
            return
        self._job_number += 1
        number = self._job_number
        took_s = self._job_s()
        before_s = took_s * self._chance.random()

        def carry_out() -> None:
            if self._jobs.pop(number, None) is None or self.dead:
                return
            result: T | None = None
            error: BaseException | None = None
            outer, Meter.running = Meter.running, self._thread_meter
            try:
                with self._as_built():
                    result = run()
            except BaseException as raised:
                error = raised
            finally:
                Meter.running = outer
            more_s, _ = self._thread_meter.take()
            self._scheduler.after(took_s - before_s + more_s, self.arrive, tell, result, error)

        self._jobs[number] = lambda: (run(), None)[1]
        self._scheduler.after(before_s, carry_out)

    def pause(self) -> None:
        """SIGSTOP: time goes on, the node does not."""
        self.paused = True

    def resume(self) -> None:
        """SIGCONT: run the timers that fell due and the calls that arrived. Chance decides which of the two run
        first."""
        if not self.paused:
            return
        self.paused = False
        first, second = (self._due, self._arrived) if self._chance.random() < 0.5 else (self._arrived, self._due)
        self._ready.extend([*first, *second])
        self._due, self._arrived = [], []
        if self._ready and not self._resting:
            self._turn()

    def die(self) -> list[Callable[[], None]]:
        """Stop everything on this loop. Return the jobs under way that had not taken effect."""
        self.dead = True
        self._left = asyncio.all_tasks(self)
        self._ready.clear()
        self._due, self._arrived = [], []
        jobs, self._jobs = list(self._jobs.values()), {}
        return jobs

    def bury(self) -> None:
        """Close the coroutines of a dead loop, so that the garbage collector does not close one later and print a
        warning. On the way out the disk and the network refuse them everything, and no timer ever comes.
        """
        assert self.dead, "bury the dead"
        assert not self._turning, "a callback of it still runs"
        events._set_running_loop(self)
        try:
            closed: set[int] = set()
            while left := [task for task in asyncio.all_tasks(self) if id(task) not in closed]:
                for task in sorted(left, key=lambda each: each.get_name()):
                    closed.add(id(task))
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close(task.get_coro())
        finally:
            events._set_running_loop(None)
            self._left.clear()

    # -- turns

    def _timer(self, handle: asyncio.TimerHandle) -> None:
        if handle._cancelled or self.dead:
            return
        if self.paused:
            self._due.append(handle)
            return
        self._ready.append(handle)
        if not self._resting:
            self._turn()

    def _rested(self) -> None:
        self._resting = False
        if self._ready and not self.paused:
            self._turn()

    def _turn(self) -> None:
        """Run ready callbacks in rounds: until none is ready, a charge is due, or ROUNDS_MAX rounds are over."""
        if self.dead or self.paused:
            return
        self._turning = True
        Meter.running = self.meter
        events._set_running_loop(self)
        try:
            with self._as_built():
                self._carry_out_all()
        finally:
            events._set_running_loop(None)
            Meter.running = None
            self._turning = False
            rests_s = RESTLESS_S if self._ready else 0.0
            if self.meter.owed_us >= CHARGED_S * 1e6:
                rests_s, by = self.meter.take()
                self.on_charged(rests_s, by)
            if rests_s and not self._resting:
                self._resting = True
                self._scheduler.after(rests_s, self._rested)

    def _as_built(self) -> AbstractContextManager[None]:
        return nullcontext() if self.build is None else self.build()

    def _carry_out_all(self) -> None:
        ready = self._ready
        for _ in range(ROUNDS_MAX):
            for _ in range(len(ready)):
                self._carry_out(ready.popleft())
                if self.dead:
                    return
            if not ready or self.meter.owed_us >= CHARGED_S * 1e6:
                return

    def _carry_out(self, ready: _Ready) -> None:
        """Run a callback as asyncio's handles do. A failure is reported and the turn goes on."""
        try:
            if type(ready) is tuple:
                call, args = ready
                call(*args)
            elif not ready._cancelled:  # type: ignore[union-attr]
                ready._context.run(ready._callback, *ready._args)  # type: ignore[union-attr]
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler({"message": f"in {ready}", "exception": error})


def _close(coroutine: Any) -> None:
    """Close the coroutine as a kill would: nothing after the await takes effect."""
    for _ in range(CLOSINGS_MAX):
        try:
            coroutine.close()
        except RuntimeError as ignored:
            if "GeneratorExit" in str(ignored):
                continue  # it waits again, in a `finally`
            return
        except BaseException:  # its errors on the way out do not matter
            return
        return
