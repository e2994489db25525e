"""Whether a node may act as leader: one check, asked again after every await."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.port.problem import Problem
from node.handover.term import Leadership


def leadership(*, draining: bool = False, trusted: bool | None = True) -> Leadership[Any]:
    """Of a node that leads, if `trusted` is not None."""
    found: Leadership[Any] = Leadership(cast(Any, SimpleNamespace(draining=draining)))
    if trusted is not None:
        found.term = SimpleNamespace(term=1, trusted=lambda: trusted)
    return found


@pytest.mark.parametrize(
    ("draining", "trusted", "code"),
    [
        (True, True, "draining"),  # what is begun now would be lost with the node
        (True, None, "draining"),
        (False, None, "no-leader"),
        (False, False, "no-leader"),  # another one may lead already
    ],
)
def test_who_may_not_act_as_leader_is_refused(draining: bool, trusted: bool | None, code: str) -> None:
    """Before anything has happened."""
    with pytest.raises(Problem) as refused:
        leadership(draining=draining, trusted=trusted).require()
    assert refused.value.code == code


def test_who_leads_for_sure_has_its_term() -> None:
    """That of now."""
    found = leadership()
    assert found.require() is found.term


def test_the_term_that_came_meanwhile_is_the_one() -> None:
    """While a leader that was not sure waited it lost leadership, and has it again."""

    async def story() -> None:
        found, newer = leadership(), SimpleNamespace(term=1, trusted=lambda: True)

        async def sure() -> None:
            found.term = newer

        found.term = SimpleNamespace(term=1, trusted=lambda: False, sure=sure)
        assert await found.sure() is newer

    asyncio.run(story())
