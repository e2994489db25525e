"""The end of a process that this one started, awaited on the event loop."""

import asyncio
import os
import subprocess
from typing import Final

LOOK_S: Final = 0.05
"""How often a process is looked at where the system has no pidfd."""


async def end_of(process: subprocess.Popen[bytes]) -> int:
    """Wait until the process has ended, however long that takes. Return its return code."""
    if not hasattr(os, "pidfd_open"):  # Linux has it; macOS does not
        while True:
            try:
                return process.wait(0)
            except subprocess.TimeoutExpired:
                await asyncio.sleep(LOOK_S)
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    try:
        watched = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return process.wait()
    loop.add_reader(watched, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(watched)
        os.close(watched)
    return process.wait()
