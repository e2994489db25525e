"""Decides if a request may be sent again, to which node, and when.

`next_try` is the contract alone: what is safe and what the node asks for. A `Retry` is a policy on top of it, with a
bound. A client such as a checker wants the outcome of each single request, and uses no policy.
"""

from dataclasses import dataclass
from typing import Final

from hourwheel.core.errors import Effect, HourwheelError, Unreachable

#: Methods that change nothing.
READS: Final = frozenset({"GET", "HEAD"})
#: Codes of refusals that concern the asked node alone: another one can serve the request at once.
OF_THE_NODE: Final = frozenset({"draining"})
#: The begins of paths of requests that are about the asked node. LOCAL is in the query of a read that the asked node
#: answers by itself.
ONE_NODE: Final = ("/v1/node", "/v1/cluster/snapshot", "/v1/cluster/backup", "/livez", "/readyz", "/metrics")
LOCAL: Final = "consistency=local"
#: How long to wait where a node asks for a wait and does not say how long.
WAIT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class NextTry:
    """The request may be sent again in `after_s` seconds: to another node if `another` is true and there is one,
    otherwise to the same node."""

    another: bool
    after_s: float


def asks_one_node(path: str) -> bool:
    """True if a request is about the asked node. Do not send it to another node, which would answer about itself."""
    path, _, query = path.partition("?")
    return path.startswith(ONE_NODE) or LOCAL in query.split("&")


def repeatable(method: str, keyed: bool) -> bool:
    """True if it makes no difference to do the request a second time.

    `keyed`: a second time surely changes nothing, because of the request's key, or as for an ack. A message that
    replaces or extends is not `keyed`. A PUT or DELETE that is not `keyed` is not repeated: it could undo what another
    client did in between.
    """
    return keyed or method.upper() in READS


def may_send_again(effect: Effect, method: str, keyed: bool) -> bool:
    """True if a request may be sent again after a failure with this effect."""
    return effect is Effect.NONE or (effect is Effect.UNKNOWN and repeatable(method, keyed))


def next_try(method: str, keyed: bool, error: HourwheelError) -> NextTry | None:
    """Return when, and to which node, a request that failed with `error` may be sent again. None: it must not be sent
    again."""
    if not may_send_again(error.effect, method, keyed):
        return None
    if isinstance(error, Unreachable) or error.effect is Effect.UNKNOWN or error.code in OF_THE_NODE:
        return NextTry(another=True, after_s=0.0)
    asked_s = error.retry_after_s
    return NextTry(another=error.code == "busy", after_s=WAIT_S if asked_s is None else asked_s)


@dataclass(frozen=True, slots=True)
class Retry:
    """A policy: at most `tries_max` tries within `total_s`. The wait before a retry doubles from `first_wait_s` to
    `wait_max_s`."""

    tries_max: int = 5
    total_s: float = 30.0
    first_wait_s: float = 0.1
    wait_max_s: float = 5.0

    def next_try(
        self, method: str, keyed: bool, error: HourwheelError, *, tries: int, spent_s: float, chance: float
    ) -> NextTry | None:
        """Return the next try after `tries` tries, `spent_s` after the first began. None: there is none, and `error` is
        the outcome.

        `chance` is a random number from 0 to 1. It spreads the waits, so that clients that failed together do not send
        again together.
        """
        found = next_try(method, keyed, error)
        if found is None or tries >= self.tries_max:
            return None
        grown_s = min(self.wait_max_s, self.first_wait_s * 2.0 ** min(tries - 1, 60))
        wait_s = max(found.after_s, grown_s * (0.5 + chance / 2))
        return NextTry(found.another, wait_s) if spent_s + wait_s <= self.total_s else None


def effect_of_all(doubtful: bool, last: Effect) -> Effect:
    """Return the effect of all tries of a request without success. `last` is the effect of the last try.

    `doubtful`: an earlier try may have been done. Then the whole effect is unknown, even if the last try was refused.
    It may have been refused because the earlier try was done.
    """
    return Effect.UNKNOWN if doubtful else last
