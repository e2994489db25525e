"""Log lines that strangers can cause: one a second at the most, however often they cause them.

Any client that reaches the Raft port can make a node refuse a thousand connections a second. A line for each would fill
the disk that the messages need. The lines left out are counted, and the next line gives the count.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

PERIOD_S = 1.0


class SaidSeldom:
    """Writes the lines of one kind to a logger, at most one in PERIOD_S. `now` gives monotonic seconds."""

    def __init__(self, log: logging.Logger, now: Callable[[], float]) -> None:
        self._log = log
        self._now = now
        self._next_s = float("-inf")
        self._left_out = 0

    def warning(self, text: str, *values: object) -> None:
        """Write the line as a warning, or count it if it comes too soon after the last one."""
        self._say(logging.WARNING, text, values)

    def error(self, text: str, *values: object) -> None:
        """Write the line as an error, or count it if it comes too soon after the last one."""
        self._say(logging.ERROR, text, values)

    def _say(self, level: int, text: str, values: tuple[object, ...]) -> None:
        now = self._now()
        if now < self._next_s:
            self._left_out += 1
            return
        more = f" ({self._left_out} more such lines were left out)" if self._left_out else ""
        self._next_s, self._left_out = now + PERIOD_S, 0
        self._log.log(level, text + "%s", *values, more)
