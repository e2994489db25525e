"""The end of a process, with the kernel's word and without."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from cli.local.process_end import end_of

WAITS = [sys.executable, "-c", "input()"]


async def ended_by(process: "subprocess.Popen[bytes]") -> int:
    """Kill it while its end is awaited; the code."""
    end = asyncio.create_task(end_of(process))
    done, _ = await asyncio.wait([end], timeout=0)
    assert not done
    process.send_signal(signal.SIGKILL)
    return await end


@pytest.mark.parametrize("has_pidfd", [True, False])
def test_the_return_code_comes_with_the_end(monkeypatch: pytest.MonkeyPatch, has_pidfd: bool) -> None:
    """While it is awaited, and for a process that has ended before."""
    if not has_pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    with subprocess.Popen(WAITS, stdin=subprocess.PIPE) as process:
        assert asyncio.run(ended_by(process)) == -signal.SIGKILL
        assert asyncio.run(end_of(process)) == -signal.SIGKILL
