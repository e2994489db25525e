"""States that a test adds as a row each, and nothing else: one that holds a message back, and two that let it go."""

from collections.abc import Iterator
from contextlib import contextmanager

from storage.format.level import LEVELS
from storage.format.states import PENDING, STATES, Answers, State, make_tables, registered

HALF = State(
    16,
    "half",
    Answers(is_pending=False, is_open=False, lives_here=True, keeps_hour=True),
    "half",
    when="the transaction",
    since=LEVELS[1],
)
"""A message of a transaction that is not committed: neither handed out nor settled."""
COMMITTED = State(17, "committed", STATES[PENDING].answers, leaves=PENDING, when="the due time", since=LEVELS[1])
"""What makes it pending, as a release does."""
RESUMED = State(18, "resumed", STATES[PENDING].answers, STATES[PENDING].word)
"""Pending in a state of its own."""


@contextmanager
def added(*rows: State) -> Iterator[None]:
    """With these rows too, wherever states are asked about."""
    before = dict(STATES)
    STATES.update(registered([*before.values(), *rows]))
    make_tables()
    try:
        yield
    finally:
        STATES.clear()
        STATES.update(before)
        make_tables()
