"""A process of our own that does what must not wait for this one: told what to do by lines of JSON, ended by their end.

What stands between nodes has to be as quick as a network. This process runs the load's clients, and when nothing
answers them they are busy: packets and streams that had to wait for them would make the trouble that keeps it so.
"""

import json
import subprocess
import sys
from collections.abc import Sequence

from chaos.cluster.local_nodes import this_build


class HelperFailed(RuntimeError):
    """It ended, or could not begin."""


class Helper:
    """Runs a module of ours behind `prefix`, which says `ready` when it is; not before is this made."""

    def __init__(self, module: str, arguments: Sequence[str], prefix: Sequence[str] = ()) -> None:
        self._module = module
        words = [*prefix, sys.executable, "-P", "-m", module, *arguments]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=this_build())
        self._answer()

    def tell(self, document: object) -> None:
        """Raises HelperFailed when it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(document).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failed() from None

    def ask(self, document: object) -> object:
        """Its answer, read from one line of JSON. Raises HelperFailed when it has ended."""
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
        """Ends it."""
        self._process.communicate()
