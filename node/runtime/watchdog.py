"""Watches the event loop: how long a step holds it, for which cause, and at which lines. It costs an idle node next to
nothing.

Every step of the Raft group is a beat, and heartbeats make one every 50 ms on every node. While the loop has little to
do, its thread runs for one step between two beats. The time that it ran is the time for which that step held the loop.
A busy loop gets a timer of its own as well, whose ticks are `held_ms` / TICKS apart. Then the loop was held for as long
as a tick comes late:

    tick                 due               came
     |------ step_s ------|------ late ------|      the thread ran: `work`; stood in the run queue: `unscheduled`;
                                                    neither: `blocked`, or the whole process was stopped

So a hold may be reported up to one `step_s` too short, and never too long. Another thread, the watcher, wakes every 2
`held_ms`, and four times as often beside a busy loop. If the loop waits for something to do, the watcher sleeps on. If
the loop has been at work for a while, the watcher notes its stack again and again until the next beat. The beat logs
the stack that was seen most often. If the loop does not come back for HANGS times `held_ms`, the watcher itself logs
that, one time.

Most of the cost is waking up. Heartbeats wake an idle node anyway, so the beats add no wake-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple, Self

import structlog

from node.runtime.loop_held import LEAST_MS, Hold, LoopHeld
from storage.file.disk import Disk

log = structlog.get_logger()

TICKS: Final = 4
"""The number of ticks of the timer, or of samples of the watcher, within `held_ms`."""
BUSY: Final = 0.1
"""A loop that ran for more than this share of the time is busy, and gets a timer."""
CALM: Final = 20
"""After this many ticks in a row in which the loop was not busy, the timer ends."""
FRESH_S: Final = 0.01
"""A beat that comes sooner than this after the last reading of the clocks reads none."""
LEAST_S: Final = LEAST_MS / 1000
HANGS: Final = 10
DEPTH: Final = 16
"""The number of calls of a stack that are logged."""
_RESTING: Final = ("asyncio/runners.py", "asyncio/base_events.py", "asyncio/events.py", "/selectors.py")
"""If the newest call of the loop's thread is in one of these files, the loop waits for something to do."""
_SCHEDSTAT_BYTES: Final = 96
_ROOT: Final = f"{Path(__file__).parents[2]}/"
"""The folder of our packages. In a checkout it may also hold an environment with other packages (_OTHERS)."""
_OTHERS: Final = "site-packages/"


class Watchdog:
    """A watchdog that watches nothing, for the simulator, in which the loop's time is not the time of its thread. See
    LoopWatchdog.
    """

    def __init__(self) -> None:
        self.held = LoopHeld()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def beat(self) -> None:
        """Note that a new step of the loop has begun."""


class _Sample(NamedTuple):
    """The calls that the loop's thread was in at one moment (`at_s`) while the loop was held."""

    at_s: float
    doing: tuple[str, ...]


class LoopWatchdog(Watchdog):
    """A context manager that watches the running event loop from the beginning of its block to the end."""

    def __init__(self, held_ms: int) -> None:
        super().__init__()
        self._held_s = held_ms / 1000
        self._step_s = held_ms / TICKS / 1000
        self._over = True
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = self._beat_s = 0.0
        self._calm = 0
        self._samples: list[_Sample] = []
        self._stopped_s = 0.0  # how long the process was stopped since the last look, as the watcher saw it
        self._rests = (0.0, 0.0)  # until when the watcher meant to sleep, and the processor time of the process before
        self._at_s = self._ran_s = self._queued_s = 0.0  # the clocks at the last look

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        if hasattr(time, "pthread_getcpuclockid"):
            self._clock = time.pthread_getcpuclockid(self._thread)
        else:  # macOS has the process's time only: its loop looks busier than it is, and has its timer more often
            self._clock = time.CLOCK_PROCESS_CPUTIME_ID
        self._schedstat = _Schedstat(threading.get_native_id())
        self._beat_s = self._at_s = time.monotonic()
        self._ran_s, self._queued_s = time.thread_time(), self._schedstat.queued_s()
        self._over = False
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

    # -- on the loop

    def beat(self) -> None:
        """Note that a new step of the loop has begun, and how long the step before held it."""
        self._beat_s = now_s = time.monotonic()
        gap_s = now_s - self._at_s
        if gap_s < FRESH_S or self._timer is not None or self._over:
            return
        ran_s = time.thread_time()
        if ran_s - self._ran_s >= LEAST_S or gap_s >= self._held_s:
            self._look(now_s, gap_s, ticked=False)
        self._at_s, self._ran_s, self._stopped_s = now_s, ran_s, 0.0

    def _begin_ticks(self) -> None:
        if self._timer is None and not self._over:
            self.beat()  # the watcher asked for this call during a hold, which has just ended
            self._calm = 0
            self._set(time.monotonic())

    def _set(self, now_s: float) -> None:
        self._due_s = now_s + self._step_s
        self._timer = self._loop.call_later(self._step_s, self._tick)

    def _tick(self) -> None:
        self._beat_s = now_s = time.monotonic()
        ran_s = time.thread_time()
        busy = ran_s - self._ran_s > BUSY * (now_s - self._at_s)
        self._look(now_s, max(0.0, now_s - self._due_s), ticked=True)
        self._at_s, self._ran_s = now_s, ran_s
        self._calm = 0 if busy else self._calm + 1
        if self._calm < CALM:
            self._set(now_s)
        else:
            self._timer = None

    def _look(self, now_s: float, most_s: float, *, ticked: bool) -> None:
        """Split the time for which the loop was held since the last look by cause. Count it, and log it if it is long.

        The loop was held for at most `most_s`. If the timer's tick called this (`ticked`), it was held for exactly that
        long.
        """
        samples = [each for each in self._samples if each.at_s > self._at_s]
        self._samples.clear()
        stopped_s, self._stopped_s = self._stopped_s, 0.0
        stopped_s = max(stopped_s, self._stood_still_s(now_s))
        queued_s, before_s = self._schedstat.queued_s(), self._queued_s
        self._queued_s = queued_s
        waited_s, ran_s = max(queued_s - before_s, stopped_s), time.thread_time() - self._ran_s
        if ticked:  # processor time from before the tick was due must not count, so `unscheduled` goes first
            unscheduled_s = min(most_s, waited_s)
            work_s = min(most_s - unscheduled_s, ran_s)
            blocked_s = most_s - unscheduled_s - work_s
        else:  # the loop was idle for the rest of the time, except from the first sample on
            work_s = min(most_s, ran_s)
            unscheduled_s = min(most_s - work_s, waited_s)
            seen_s = now_s - samples[0].at_s if samples else 0.0
            blocked_s = min(most_s - work_s - unscheduled_s, seen_s)
        if not self._schedstat.known:
            unscheduled_s, blocked_s = unscheduled_s + blocked_s, 0.0
        hold = Hold(work_s * 1000, blocked_s * 1000, unscheduled_s * 1000)
        self.held.observe(hold)
        if hold.held_ms >= self._held_s * 1000:
            doing, seen = Counter(each.doing for each in samples).most_common(1)[0] if samples else ((), 0)
            self.tell(replace(hold, doing=doing, seen=seen, samples=len(samples)))

    def _stood_still_s(self, now_s: float) -> float:
        """How long the whole process was stopped, in seconds, 0 if it was not.

        A stopped process is in no run queue. But after the stop the watcher wakes late, and no thread of the process
        used processor time meanwhile.
        """
        until_s, process_s = self._rests
        late_s = now_s - until_s
        return late_s if late_s > 0 and time.process_time() - process_s < late_s / 2 else 0.0

    def tell(self, hold: Hold) -> None:
        """Log a hold that lasted `held_ms` or longer."""
        log.warning(
            "loop held" if hold.own_ms >= min(self._held_s * 1000, hold.held_ms / 2) else "loop not scheduled",
            held_ms=round(hold.held_ms),
            work_ms=round(hold.work_ms),
            blocked_ms=round(hold.blocked_ms),
            unscheduled_ms=round(hold.unscheduled_ms),
            doing=" < ".join(hold.doing) or "not seen",
            samples=f"{hold.seen} of {hold.samples}",
        )

    # -- in the watcher's thread

    def _watch(self) -> None:
        try:
            self._look_in()
        except OSError:
            return  # the thread of the loop has ended, and its clock cannot be read any more
        finally:
            self._schedstat.close()

    def _look_in(self) -> None:
        wait_s, told_s = 2 * self._held_s, 0.0
        woken_s, ran_s = time.monotonic(), time.clock_gettime(self._clock)
        while True:
            self._rests_until(wait_s)
            time.sleep(wait_s)
            if self._over:
                return
            self._rests_until(0.0)  # from here on this thread has the interpreter lock, and the loop may wait for it
            before_s, woken_s = woken_s, time.monotonic()
            before_ran_s, ran_s = ran_s, time.clock_gettime(self._clock)
            if self._timer is None and ran_s - before_ran_s > BUSY * (woken_s - before_s):
                self._call(self._begin_ticks)
            wait_s = self._held_s * (2 if self._timer is None else 0.5)
            now_s, beat_s = woken_s, self._beat_s
            frame = sys._current_frames().get(self._thread)
            if frame is None or now_s - beat_s < self._step_s or at_rest(frame):
                if self._timer is None:  # the idle loop's waits for a processor until now are part of no hold
                    self._queued_s = self._schedstat.queued_s()
                continue
            wait_s = self._step_s
            doing = stack_of(frame)
            self._samples.append(_Sample(now_s, doing))
            if now_s - beat_s > HANGS * self._held_s and told_s != beat_s:
                told_s, held_ms = beat_s, round((now_s - beat_s) * 1000)
                log.error("loop is held and does not come back", held_ms=held_ms, doing=" < ".join(doing))

    def _rests_until(self, wait_s: float) -> None:
        """Note that the watcher now sleeps for `wait_s`. If it woke late from its last sleep because the process was
        stopped, note for how long.
        """
        now_s = time.monotonic()
        self._stopped_s = max(self._stopped_s, self._stood_still_s(now_s))
        self._rests = (now_s + wait_s, time.process_time())

    def _call(self, call: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(call)


class _Schedstat:
    """Reads how long one thread waited for a processor, from the kernel's account. On systems without such an account
    the time is 0.
    """

    def __init__(self, thread: int) -> None:
        self._disk = Disk()
        self._fd: int | None = None
        with contextlib.suppress(FileNotFoundError):
            self._fd = self._disk.open_read(Path(f"/proc/self/task/{thread}/schedstat"))

    @property
    def known(self) -> bool:
        """True if the kernel keeps such an account."""
        return self._fd is not None

    def queued_s(self) -> float:
        """Seconds that the thread has waited for a processor since it began. 0 if the kernel keeps no account."""
        if self._fd is None:
            return 0.0
        return int(self._disk.read(self._fd, _SCHEDSTAT_BYTES, 0).split()[1]) / 1e9

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            self._disk.close(self._fd)
            self._fd = None


def at_rest(frame: FrameType) -> bool:
    """True if `frame`, the newest call of the loop's thread, shows that the loop waits for something to do."""
    return frame.f_code.co_filename.endswith(_RESTING)


def stack_of(frame: FrameType | None) -> tuple[str, ...]:
    """The newest DEPTH calls of a thread, the newest first, each as `path:line function`. A file of ours has its path
    from the top folder. Another file has the name of its folder and its own.
    """
    calls: list[str] = []
    while frame is not None and len(calls) < DEPTH:
        code = frame.f_code
        path = code.co_filename.removeprefix(_ROOT)
        if path == code.co_filename or _OTHERS in path:
            path = "/".join(path.rsplit("/", 2)[-2:])
        calls.append(f"{path}:{frame.f_lineno} {code.co_name}")
        frame = frame.f_back
    return tuple(calls)
