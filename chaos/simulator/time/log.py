"""Keeps the newest log lines of all nodes in memory, each with its time and node, to explain a failing seed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import structlog

from chaos.simulator.time.loop import SimLoop

#: The number of newest lines that are kept.
KEPT = 20_000
#: Loggers of the standard library that node code uses.
NAMES = ("hourwheel", "api", "asyncio", "aiohttp")


class Log(logging.Handler):
    """Keeps the newest KEPT log lines of this process from `begin` to `end`, instead of printing them. Only one Log may
    do so at a time. `now` returns the world's true time in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self.lines: deque[str] = deque(maxlen=KEPT)
        self._now = now
        self._former: Mapping[str, Any] = {}

    def begin(self) -> None:
        """Keep each line from now on instead of printing it."""
        self._former = structlog.get_config()
        structlog.configure(processors=[self._keep], cache_logger_on_first_use=False)
        for name in NAMES:
            logger = logging.getLogger(name)
            logger.addHandler(self)
            logger.propagate = False

    def end(self) -> None:
        """Restore the former logging."""
        structlog.configure(**self._former)
        for name in NAMES:
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            logger.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line of the standard library's logging."""
        self._add(f"{record.levelname.lower()} {record.getMessage()}")

    def _keep(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        said = " ".join(f"{name}={value}" for name, value in event.items() if name != "event")
        self._add(f"{method} {event.get('event')} {said}")
        raise structlog.DropEvent

    def _add(self, text: str) -> None:
        loop = asyncio._get_running_loop()
        name = loop.name if isinstance(loop, SimLoop) else "-"
        self.lines.append(f"{self._now():10.4f} {name} {text}")
