"""Output that a server outlives: what stdout or stderr does not take is dropped.

A write to a log on a full disk, or to one whose reader has gone, raises. A node that steps down would end over the
line that says so. One that ends over a full disk would end over that line, with another exit code. A lost line is the
lesser loss; metrics and `/readyz` go another way.
"""

import contextlib
import sys
from typing import Any, TextIO, cast


class Lossy:
    """A text stream whose writes never fail. What is in its buffer when the room is back is written then."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """As a text stream: the number of characters, whether they were taken or not."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """As a text stream. The interpreter calls it at the end, too, where a failure would change the exit code."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def bear_lost_output() -> None:
    """From now on nothing fails in this process because its stdout or stderr cannot be written."""
    sys.stdout, sys.stderr = cast(TextIO, Lossy(sys.stdout)), cast(TextIO, Lossy(sys.stderr))
