"""Who calls: the kernel knows which process holds the other end of a connection."""

import contextlib
import os
import socket

from chaos.live.network.callers import Callers


def test_call_is_told_from_others() -> None:
    """By the process that holds the calling end, and only by a connection that is there."""
    with contextlib.closing(Callers()) as callers, socket.create_server(("127.0.0.1", 0)) as server:
        caller = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
        with caller, accepted:
            assert callers.of(accepted) is None
            callers.pids = {"n0": os.getppid(), "n9": 2**22 - 1}
            assert callers.of(accepted) is None
            callers.pids["n1"] = os.getpid()
            assert callers.of(accepted) == "n1"
