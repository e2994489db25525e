"""A child process for work that must not wait for this one. It takes commands as lines of JSON on stdin, and ends when
stdin does.

Such processes are the relay or forwarder between nodes, which has to be as quick as a network. This process runs the
load's clients, and they are busy when no node answers them. If packets and streams waited for the clients, no answer
would come for even longer.
"""

import json
import subprocess
import sys
from collections.abc import Sequence

from cli.local.local_nodes import this_build


class HelperFailed(RuntimeError):
    """The helper ended, or could not begin."""


class Helper:
    """Runs one of our modules as a process. `prefix` stands before its command, such as `nsenter` with a namespace. The
    constructor returns when the module says `ready`."""

    def __init__(self, module: str, arguments: Sequence[str], prefix: Sequence[str] = ()) -> None:
        self._module = module
        words = [*prefix, sys.executable, "-P", "-m", module, *arguments]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=this_build())
        self._answer()

    def tell(self, document: object) -> None:
        """Send a command. Raises HelperFailed when the helper has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed() from None

    def ask(self, document: object) -> object:
        """Send a command and return the answer, one line of JSON. Raises HelperFailed when the helper has ended."""
        self.tell(document)
        return json.loads(self._answer())

    def _answer(self) -> bytes:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failed()
        return line

    def _failed(self) -> HelperFailed:
        return HelperFailed(f"{self._module} ended by itself with exit code {self._process.wait()}")

    def close(self) -> None:
        """Close the helper's stdin, and wait until it has ended."""
        self._process.communicate()
