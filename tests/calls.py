"""Notes the calls of a method. The method still runs."""

from collections.abc import Callable
from typing import Any

import pytest


def calls_of(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, note: Callable[..., Any] = lambda *args, **_: args
) -> list[Any]:
    """Of each call of this method from now on, in order, what `note` makes of its arguments: the positional ones. Of a
    class the instance is the first."""
    calls: list[Any] = []
    method = getattr(owner, name)

    def noted(*args: Any, **kwargs: Any) -> Any:
        calls.append(note(*args, **kwargs))
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, name, noted)
    return calls
