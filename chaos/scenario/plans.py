"""The plans of the scenarios: faults of one kind, each when the one before is over and the service is calm again."""

from collections.abc import Iterable, Sequence
from typing import Final

from chaos.plan.fault_plan import FaultPlan

CALM_S: Final = 1.5
#: A fault excuses effects for two seconds after a pause, and for five if no node is left. These waits are longer, so
#: the next fault comes after that.
PAUSED_CALM_S: Final = 3.0
NONE_LEFT_CALM_S: Final = 7.0
#: The load ends when all faults have come, or after this time.
LONGEST_S: Final = 3_600.0
TWO_HOURS_S: Final = 7_200
#: Wall clocks, one after the other:
#: - the leader's steps ten seconds either way, and the leader yields;
#: - the leader's is 300 ms off, then drifts, and the leader leads on;
#: - a follower's is two hours ahead while the leader is paused;
#: - a follower's is a minute behind while the leader is killed.
_CLOCKS: Final = (
    ("+{calm} jump leader for=+{calm} by=10",),
    ("+{calm} jump leader for=+{calm} by=-10",),
    ("+{calm} jump leader for=+{calm} by=0.3",),
    ("+{calm} drift leader for=+{calm} ppm=400",),
    ("+{calm} jump follower for=+{calm} by={two_hours}", "&{calm} pause leader for=+{calm}"),
    ("+{calm} jump follower for=+{calm} by=-60", "&{calm} kill leader for=+{calm}"),
)


def plan(lines: Iterable[str]) -> FaultPlan:
    """Return a plan for three nodes with these lines."""
    return FaultPlan.parse("\n".join([f"plan seed=1 nodes=3 seconds={LONGEST_S:g}", *lines]), "live")


def again_and_again(times: int, fault: str, targets: Sequence[str], lasts: str, calm_s: float = CALM_S) -> list[str]:
    """Return the lines of `times` faults, all of this kind (`fault`), on these targets in turn. Each waits until the
    service was calm for `calm_s`. `lasts` is the value of `for`."""
    return [f"+{calm_s} {fault} {targets[turn % len(targets)]} for={lasts}" for turn in range(times)]


def kills(times: int, *targets: str, calm_s: float = CALM_S) -> list[str]:
    """Return the lines of `times` kills (kill -9), of these targets in turn. A killed node is started again when the
    service has been calm without it for `calm_s`."""
    return again_and_again(times, "kill", targets, f"+{calm_s}", calm_s)


def slowed(lines: Sequence[str], by_s: float) -> list[str]:
    """Return these lines behind a line that makes every sync of the followers take `by_s` longer, for the whole run."""
    return [f"0 slow followers for={LONGEST_S:g} by={by_s:g}", *lines]


def pauses(times: int, seconds: float) -> list[str]:
    """Return the lines of `times` pauses of the leader with SIGSTOP, each so long that it wakes under another
    leader."""
    return again_and_again(times, "pause", ["leader"], f"{seconds:g}", PAUSED_CALM_S)


def of_all(times: int, fault: str) -> list[str]:
    """Return the lines of `times` faults of this kind that end all nodes together. All are started again right after
    it."""
    return again_and_again(times, fault, ["*"], "0", NONE_LEFT_CALM_S)


def transfers(times: int, calm_s: float = CALM_S) -> list[str]:
    """Return the lines of `times` transfers: to one follower, to the other, and to the one that the leader chooses, in
    turn."""
    return again_and_again(times, "transfer", ["follower", "last", "*"], "0", calm_s)


def rolling_restarts(times: int, calm_s: float = CALM_S / 2) -> list[str]:
    """Return the lines of `times` rounds in which every node is stopped in order and started again, one after the
    other."""
    return again_and_again(3 * times, "stop", ["n1", "n2", "n3"], f"+{calm_s}", calm_s)


def replacements(times: int, calm_s: float = CALM_S / 2) -> list[str]:
    """Return the lines of `times` rounds that add a new node and remove the oldest one. Three rounds replace every
    founder."""
    return again_and_again(times, "replace", [f"n{number + 1}" for number in range(times)], f"+{calm_s}", calm_s)


def clock_steps(times: int, calm_s: float = CALM_S) -> list[str]:
    """Return the lines of `times` entries of _CLOCKS. The first of them follows the last again."""
    words = {"calm": calm_s, "two_hours": TWO_HOURS_S}
    return [line.format(**words) for turn in range(times) for line in _CLOCKS[turn % len(_CLOCKS)]]
