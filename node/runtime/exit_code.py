"""The exit codes of the `hourwheel` command. They stand in one table, because scripts rely on them.

A script has to tell three cases apart:

- the message is wrong: mend the call
- no node answers: try later
- it may have happened: send again with the same key

Those have different codes, and a code never changes its meaning. `hourwheel --help` prints this table and nothing else
describes it.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes. Their sentences are in `SENTENCES`."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    NOT_FOUND = 5
    CONFLICT = 6
    UNAVAILABLE = 7
    UNKNOWN = 8
    CONFIG = 9
    ADDRESS = 10
    DATA = 11
    CHILD = 12
    REMOVED = 13
    INCOMPLETE = 14


SENTENCES: dict[ExitCode, str] = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "an error of the service or of this command (HTTP 500, or a defect)",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.UNREACHABLE: "no node answers at the address",
    ExitCode.REFUSED: "the request is refused: a field, a limit, a type (HTTP 400, 401, 403, 413, 415, 422)",
    ExitCode.NOT_FOUND: "no such message, topic or route (HTTP 404, 405)",
    ExitCode.CONFLICT: (
        "its state does not allow it: leased, settled, key held by another request (HTTP 409, 412, 428); "
        "reconcile: a promise is broken"
    ),
    ExitCode.UNAVAILABLE: "not now: no leader, over a limit, disk full, draining (HTTP 429, 503); nothing was done",
    ExitCode.UNKNOWN: "may or may not have happened (HTTP 504, or the connection broke); send again with the same key",
    ExitCode.CONFIG: "serve: the config file is refused",
    ExitCode.ADDRESS: "serve, dev: an address cannot be listened on (port in use)",
    ExitCode.DATA: "serve, dev, verify, restore, reconcile: data or backup is refused, damaged or cannot be written",
    ExitCode.CHILD: "dev: a node ended before the cluster was ready, or all have ended",
    ExitCode.REMOVED: "serve: the node was removed from its cluster",
    ExitCode.INCOMPLETE: "reconcile apply: nothing is sent again, for a node's account is missing or has a hole",
}

_BY_STATUS: dict[int, ExitCode] = {
    400: ExitCode.REFUSED,
    401: ExitCode.REFUSED,
    403: ExitCode.REFUSED,
    404: ExitCode.NOT_FOUND,
    405: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    412: ExitCode.CONFLICT,
    413: ExitCode.REFUSED,
    415: ExitCode.REFUSED,
    422: ExitCode.REFUSED,
    428: ExitCode.CONFLICT,
    429: ExitCode.UNAVAILABLE,
    503: ExitCode.UNAVAILABLE,
    504: ExitCode.UNKNOWN,
}


def of_status(status: int) -> ExitCode:
    """The exit code for the status of an HTTP answer. A status that is no success and not in the table gives
    `FAILED`.
    """
    if 200 <= status < 300:
        return ExitCode.OK
    return _BY_STATUS.get(status, ExitCode.FAILED)
