"""Receivers of webhooks in a process of their own: `hourwheel listen`, by whose log a measurement is judged."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from chaos.cluster.cluster import ClusterFailed
from cli.local.local_nodes import this_build

STOP_S = 30.0
#: Settings that let a cluster push to this machine.
PUSH_SETTINGS = {"push": {"allow": ["127.0.0.0/8"]}}


class Received(msgspec.Struct, gc=False):
    """The members of a line of the log that are judged."""

    received_ms: float
    port: int
    status: int
    id: str | None = None
    attempt: int | None = None
    term: int | None = None
    due: datetime | None = None

    @property
    def late_ms(self) -> float:
        """Return receive time minus due time. Both clocks are this machine's."""
        assert self.due is not None, f"{self.id} came without a due time"
        return self.received_ms - self.due.timestamp() * 1000


_DECODER = msgspec.json.Decoder(Received)


@dataclass(frozen=True)
class Repeats:
    """Repeated deliveries of an id.

    - `count`: those that came soon after an earlier one. The earlier ones spread over `span_ms`.
    - `after_lease`: those that came when the lease of the earlier one had ended.
    """

    count: int
    span_ms: float
    after_lease: int


class Receivers:
    """`count` receivers in one process, each on a port of its own.

    - `urls`: their addresses.
    - `log`: their common log.
    - `received`: every request that `poll` has read from the log, in order.
    """

    def __init__(self, log: Path, count: int = 1, *options: str) -> None:
        self.log = log
        self._command = [sys.executable, "-P", "-m", "cli", "listen", "--quiet", "-o", "json", "--log", str(log)]
        self._command += ["--port", "0"] * count + ["--parent", str(os.getpid()), *options]
        self._process: subprocess.Popen[str] | None = None
        self._offset = 0
        self.received: list[Received] = []
        self.urls: list[str] = []

    def __enter__(self) -> Self:
        """Start the process, and return when it listens. Raises ClusterFailed if it does not."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=this_build(),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise ClusterFailed(f"the receiver did not start: return code {self._process.wait()}")
        self.urls = json.loads(said)["listening"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process, by its pid."""
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def poll(self) -> int:
        """Read new lines of the log into `received`. Return the number of all requests."""
        with self.log.open("rb") as file:
            file.seek(self._offset)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._offset += len(whole)
        self.received += _DECODER.decode_lines(whole)
        return len(self.received)


def firsts(received: Sequence[Received]) -> dict[str, Received]:
    """Return the first delivery of each id."""
    found: dict[str, Received] = {}
    for one in received:
        if one.id is not None:
            found.setdefault(one.id, one)
    return found


#: A repeat that comes at most this much sooner than a lease after the first delivery still counts as one after the
#: lease. A lease begins a little before its webhook is received.
LEASE_SLACK_S = 1.0


def repeats(received: Sequence[Received], lease_s: float = float("inf")) -> Repeats:
    """Return the repeated deliveries of ids. For each term the earlier deliveries, which were repeated, lie within a
    span of time. `span_ms` is the widest of these spans.

    A leader that dies loses the records of its last pushes, which it made within one span of time. Its successor pushes
    those messages again. If the dead leader had recorded the delivery and not the answer, the message comes again when
    its lease of `lease_s` ends. Such unknown outcomes are counted apart, as `after_lease`.
    """
    again_ms = 1000 * (lease_s - LEASE_SLACK_S)
    after_lease = 0
    newest: dict[str, Received] = {}
    repeated_ms: dict[int | None, list[float]] = {}
    for one in received:
        if one.id is None:
            continue
        before = newest.get(one.id)
        if before is not None and one.received_ms - before.received_ms >= again_ms:
            after_lease += 1
        elif before is not None:
            repeated_ms.setdefault(before.term, []).append(before.received_ms)
        newest[one.id] = one
    spans = [max(times) - min(times) for times in repeated_ms.values()]
    count = sum(len(times) for times in repeated_ms.values())
    return Repeats(count, round(max(spans, default=0.0), 1), after_lease)
