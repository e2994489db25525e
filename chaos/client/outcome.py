"""The outcome of a call to a cluster, as far as its client can know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar

S = TypeVar("S")
T = TypeVar("T")

#: Codes of requests that did nothing: the client may send again.
NOT_DONE: Final = frozenset({"no-leader", "draining", "over-limit", "busy", "disk-full"})
#: Refusals that leave it open whether the request took effect.
UNKNOWN: Final = frozenset({"outcome-unknown", "internal"})


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """`ok` has a value. `refused` has the code of the refusal and the `extra` members of its answer. The code is "" if
    there was no connection. `unknown`: the call may have taken effect."""

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
        """Return this outcome with a value made from its value."""
        value = None if self.value is None else read(self.value)
        return Outcome(self.kind, value, self.code, self.extra)

    @property
    def not_done(self) -> bool:
        """True if the call surely had no effect, though it may have later."""
        return self.kind == "refused" and (not self.code or self.code in NOT_DONE)


def refusal(code: str, extra: Mapping[str, Any] | None = None) -> Outcome[Any]:
    """Return the outcome of an answer with this code."""
    return Outcome("unknown" if code in UNKNOWN else "refused", None, code, extra or {})
