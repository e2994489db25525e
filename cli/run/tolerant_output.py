"""Lets a server live on when its stdout or stderr cannot be written. What cannot be written is dropped.

A write to a log on a full disk, or to a pipe whose reader has gone, raises. A node that only gives up leadership would
then end, because it cannot write the log line about it. A node that ends because of a full disk would fail at that
line, and end with another exit code. A lost line is the lesser loss, and metrics and `/readyz` do not need these
streams.
"""

import contextlib
import sys
from typing import Any, TextIO, cast


class Lossy:
    """A text stream whose writes never fail. Text that is still in its buffer when a later write succeeds is written
    then."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, or drop it. Return its number of characters in both cases."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write the buffer, if possible. The interpreter also calls this at its end, where a failure would change the
        exit code."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def bear_lost_output() -> None:
    """Replace stdout and stderr of this process by streams whose writes never fail."""
    sys.stdout, sys.stderr = cast(TextIO, Lossy(sys.stdout)), cast(TextIO, Lossy(sys.stderr))
