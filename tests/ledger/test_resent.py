"""Messages that an operation delivered again have a cause and a flag of their own in the ledger."""

import pytest

from ledger.columns import Cause, Flag, MessageClass
from ledger.hand_overs import RESENT
from storage.format.rows import CODE_RESENT
from storage.format.states import DELIVERED, FORWARDED, LEASED
from tests.ledger.life import AWAY, Life

LIVES: dict[str, tuple[Life, list[Cause], Flag]] = {
    "delivered, and sent again by an operation": (
        Life()
        .made(3)
        .settle(DELIVERED, 20)
        .settle(FORWARDED, 9_000, when=AWAY, code=RESENT)
        .stands_away(9_000, 9_000)
        .start(9_003, attempt=2, asked=9_000)
        .away(LEASED, 9_003, attempt=2, when=39_000)
        .away(DELIVERED, 9_020, attempt=2)
        .settle(DELIVERED, 9_020, attempt=2),
        [Cause.RESENT],
        Flag.RESENT,
    ),
    "sent again, and the leader died with the Lease": (
        Life()
        .made(3)
        .settle(DELIVERED, 20)
        .settle(FORWARDED, 650, when=AWAY, code=RESENT)
        .stands_away(650, 650)
        .start(660, attempt=2, asked=650)
        .start(720, 6, attempt=2, asked=650)
        .away(LEASED, 720, 6, attempt=2, when=39_000)
        .away(DELIVERED, 800, 6, attempt=2)
        .settle(DELIVERED, 800, 6, attempt=2),
        [Cause.RESENT, Cause.FAILOVER],
        Flag.RESENT | Flag.UNKNOWN_OUTCOME,
    ),
}


def test_the_code_is_the_nodes() -> None:
    """The ledger may not import what gives the number its meaning."""
    assert RESENT == CODE_RESENT


@pytest.mark.parametrize("name", LIVES)
def test_it_has_a_cause_of_its_own(name: str) -> None:
    """Between the hand-over before the operation and the one behind it, and nowhere else."""
    life, causes, flags = LIVES[name]
    judged = life.judged()
    assert (judged.kind, judged.causes, judged.flags) == (MessageClass.DELIVERED_MORE, causes, flags)
