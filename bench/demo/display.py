"""The display of the demo while it runs: bars on a terminal, plain lines anywhere else."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINE_EVERY_S = 1.0


class Display(Protocol):
    """Shows the run while it goes on."""

    def say(self, text: str) -> None:
        """Show an event as a line."""

    def update(self, scheduled: int, pulled: int, pushed: int) -> None:
        """Show the numbers of messages that were scheduled so far, and that were pulled and pushed."""


class Lines:
    """A plain line a second and one per event, for any output but a terminal."""

    def __init__(self) -> None:
        self._start, self._next = time.monotonic(), 0.0

    def say(self, text: str) -> None:
        """Print an event, with the seconds since the start."""
        print(f"{time.monotonic() - self._start:6.1f} s  {text}", flush=True)

    def update(self, scheduled: int, pulled: int, pushed: int) -> None:
        """Print at most a line a second."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + LINE_EVERY_S
            self.say(f"scheduled {scheduled}, pulled {pulled}, pushed {pushed}")


class Bars:
    """Three bars with events above them, for a terminal. A bar grows by the messages that come beside the `count`."""

    def __init__(self, progress: Progress, count: int) -> None:
        self._progress, self._start = progress, time.monotonic()
        totals = {"scheduled": count, "pulled": count // 2, "pushed": count - count // 2}
        self._bars = {progress.add_task(name, total=total): total for name, total in totals.items()}

    def say(self, text: str) -> None:
        """Print an event, with the seconds since the start."""
        self._progress.console.print(f"{time.monotonic() - self._start:6.1f} s  {text}", markup=False, highlight=False)

    def update(self, scheduled: int, pulled: int, pushed: int) -> None:
        """Move the bars."""
        for (task, total), completed in zip(self._bars.items(), (scheduled, pulled, pushed), strict=True):
            self._progress.update(task, completed=completed, total=max(total, completed))


@contextmanager
def display(count: int) -> Iterator[Display]:
    """Yield the display that fits stdout."""
    if not sys.stdout.isatty():
        yield Lines()
        return
    columns = (TextColumn("{task.description:>10}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console()) as progress:
        yield Bars(progress, count)
