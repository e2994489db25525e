"""`hourwheel serve`: one node, until SIGTERM.

What stops a node from starting is the operator's to mend, so each cause has its own exit code and one clear sentence,
never a traceback: the config file, an address, the data directory. A defect still shows its traceback.
"""

import asyncio
import ctypes
import errno
import os
import signal
import sys
from pathlib import Path

import click

from cli.exit_code import ExitCode
from cli.failure import Failure

_PR_SET_PDEATHSIG = 1
_ADDRESS_ERRORS = {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES}


def _end_with(parent: int) -> None:
    """Asks the kernel for SIGTERM when the parent dies (Linux); ends at once if it is gone already."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        raise Failure(ExitCode.FAILED, f"the process that started this node ({parent}) is gone")


@click.command()
@click.option("--config", "config_path", required=True, type=click.Path(path_type=Path), help="the node's TOML file")
@click.option("--parent", type=int, hidden=True, help="end when this process, the parent, is gone")
def command(config_path: Path, parent: int | None) -> None:
    """Runs one node until SIGTERM or SIGINT."""
    if parent is not None:
        _end_with(parent)
    from api.server import ListenFailed
    from node.config import ConfigError, load_config
    from node.server import run
    from replication.envelope import UnknownCommand
    from replication.group import StartRefused
    from storage.data_directory import DirectoryRefused
    from storage.disk import DiskFailed
    from storage.format import Corrupt, FormatRefused

    try:
        config = load_config(config_path)
    except ConfigError as error:
        raise Failure(ExitCode.CONFIG, str(error)) from None
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(run(config))
    except (DirectoryRefused, FormatRefused, Corrupt, DiskFailed, StartRefused) as error:
        where = "" if config.data_dir in str(error) else f"{config.data_dir}: "
        raise Failure(ExitCode.DATA, f"{where}{error}") from error
    except UnknownCommand as error:
        raise Failure(ExitCode.DATA, f"{config.data_dir}: {error}; use a newer build") from error
    except ListenFailed as error:
        raise Failure(ExitCode.ADDRESS, str(error)) from None
    except OSError as error:  # of Raft: HTTP's is a ListenFailed
        if error.errno not in _ADDRESS_ERRORS:
            raise
        hint = "; is another node running there?" if error.errno == errno.EADDRINUSE else ""
        detail = f"cannot listen for Raft on {config.raft.listen}: {error.strerror}{hint}"
        raise Failure(ExitCode.ADDRESS, detail) from None


def _loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.Loop
