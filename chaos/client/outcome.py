"""The outcome of a call to a cluster, as far as its client can know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar

from hourwheel.core.errors import Effect, type_of
from hourwheel.core.problem import Problem
from hourwheel.core.retry import effect_of_all, may_send_again

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """The outcome of a call, by its `kind`.

    - `ok`: the call is done, and `value` is its answer.
    - `refused`: `code` is the code of the refusal, "" if there was no connection. `extra` has the further members of
      the answer.
    - `unknown`: the call may have taken effect.
    """

    kind: Literal["ok", "refused", "unknown"]
    value: T | None = None
    code: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def result(self) -> T:
        """The value of a call that is known to be ok."""
        assert self.value is not None, self
        return self.value

    def read(self, read: Callable[[T], S]) -> Outcome[S]:
        """Return this outcome with `read(value)` in place of its value."""
        value = None if self.value is None else read(self.value)
        return Outcome(self.kind, value, self.code, self.extra)

    @property
    def effect(self) -> Effect | None:
        """None if the call is ok. Otherwise the effect of a call with this outcome, by the contract of its code: none,
        or unknown."""
        if self.kind == "ok":
            return None
        if self.kind == "unknown":
            return Effect.UNKNOWN
        return type_of(0, self.code).effect if self.code else Effect.NONE

    @property
    def not_done(self) -> bool:
        """True if the call surely had no effect, and may be sent again."""
        return self.effect is Effect.NONE

    def may_go_again(self, keyed: bool) -> bool:
        """True if its client may send the call again. `keyed`: the call has a key, so a second one with the same key
        has no further effect."""
        return self.effect is not None and may_send_again(self.effect, "POST", keyed)

    def after(self, doubtful: bool) -> Outcome[T]:
        """Return the outcome of all tries of a call, if this is the outcome of the last. `doubtful`: an earlier try may
        have taken effect."""
        unknown = self.effect is not None and effect_of_all(doubtful, self.effect) is Effect.UNKNOWN
        return replace(self, kind="unknown") if unknown else self


def refusal(code: str, extra: Mapping[str, Any] | None = None) -> Outcome[Any]:
    """Return the outcome of an answer with this code."""
    return replace(refused(Problem(0, code)), extra=extra or {})


def refused(problem: Problem) -> Outcome[Any]:
    """Return the outcome of an answer that is no success."""
    unknown = type_of(problem.status, problem.code).effect is Effect.UNKNOWN
    return Outcome("unknown" if unknown else "refused", None, problem.code or f"HTTP {problem.status}")
