"""How many examples a property test takes, and with which seeds a model runs.

| profile | examples | seeds | found by |
|---|---|---|---|
| `run` | as many as the test says, the same ones every time | from 0 | `make test` |
| `fast` | a quarter of them | a quarter | `make test-fast` |
| `soak` | twenty times as many, drawn anew | twenty times as many, from SOAK_SEED | `make soak-models` |

So a run of the tests says the same of the same code. What the search finds becomes a named test.
"""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

PERCENT = {"run": 100, "fast": 25, "soak": 2000}
SOAK_SEED = int(os.environ.get("SOAK_SEED", "0"))

_UNMEASURED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
"""How long an example takes says something of the machine alone; tests clear what they share themselves."""


def register_profiles() -> None:
    """Let `--hypothesis-profile` choose; without it everything is derandomized."""
    for name in ("run", "fast"):
        settings.register_profile(
            name,
            max_examples=PERCENT[name],
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=_UNMEASURED,
        )
    settings.register_profile(
        "soak", max_examples=PERCENT["soak"], print_blob=True, deadline=None, suppress_health_check=_UNMEASURED
    )
    settings.load_profile("run")


def _scaled(count: int) -> int:
    return max(1, count * settings().max_examples // PERCENT["run"])


def examples(count: int, **more: Any) -> settings:
    """So many examples in `make test`, and in proportion elsewhere."""
    return settings(max_examples=_scaled(count), **more)


def stride(each: int = 1) -> int:
    """How many points of a sweep are one step: `make test` tries one of `each`, `make soak-models` all. An `each` that
    shares no divisor with the size of a row meets every place in it, in one row or another."""
    return max(1, each * PERCENT["run"] // settings().max_examples)


def points(count: int, place: int, of: int) -> range:
    """The points 1 to `count` of a sweep that `of` tests share: `make test` tries each in one of them, by `place`, and
    `make soak-models` all in each."""
    step = stride(of)
    return range(1 + place % step, count + 1, step)


def seeds(count: int) -> pytest.MarkDecorator:
    """Parametrize `seed` with so many, likewise."""
    first = SOAK_SEED if settings().max_examples == PERCENT["soak"] else 0
    chosen = range(first, first + _scaled(count))
    return pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.model) for seed in chosen])


def replay(test: str, seed: int) -> str:
    """The command that runs one seed again; `test` is the file and the function."""
    soak = f"SOAK_SEED={seed} " if SOAK_SEED else ""
    return f"replay with: {soak}pytest '{test}[{seed}]'{' --hypothesis-profile=soak' if soak else ''}"
