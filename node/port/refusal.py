"""A refusal as it crosses: it is a Problem on both sides, and this struct on its way between them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from api.port.problem import TABLE, FieldFault, Problem

#: The codes of refusals which say that nothing was done, and that another node may do it.
NOTHING_DONE: Final = frozenset(("no-leader", "draining"))


class Refusal(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The fields of a Problem."""

    code: str
    detail: str
    errors: tuple[FieldFault, ...] = ()
    retry_after_s: int | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem) -> Refusal:
        """Return the Refusal that carries this Problem."""
        return cls(
            problem.code, problem.detail, problem.errors, problem.retry_after_s, problem.headers, dict(problem.extra)
        )

    def problem(self) -> Problem:
        """Return the Problem that this Refusal carries. A code that this build does not know becomes `outcome-unknown`,
        because nothing says what was done."""
        if self.code not in TABLE:
            return Problem("outcome-unknown", f"a refusal of another build: {self.code}: {self.detail}")
        return Problem(
            self.code, self.detail, errors=self.errors, retry_after_s=self.retry_after_s, headers=self.headers,
            **self.extra,
        )  # fmt: skip


def unfinished(refused: Problem | Refusal, **done: Any) -> Problem:
    """Return the refusal of a request of which a part was done, or may have been. `done` are members of the answer that
    say how much is known to be done."""
    return Problem(
        "outcome-unknown",
        f"a part of this was done, or may have been, before it was refused ({refused.detail}); "
        "what is known to be done stands here, and asked again it does the rest",
        **done,
    )
