"""`make soak-mutants`: finds for each planted mistake the first seed, from 1 to 200, that shows it. Exit 1 if no seed
shows one of them.

`python -m chaos.simulator.hunt --first 33 trust-from-receipt` begins at a seed that is known to find it.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Final

from chaos.plan.draw import draw_plan
from chaos.plan.draw_answers import with_asks
from chaos.simulator.build.mutant import MUTANTS, planted
from chaos.simulator.run import run_plan
from chaos.simulator.seeds import cores

SEEDS_MAX: Final = 200
SECONDS: Final = 60.0


@dataclass(frozen=True)
class FoundMistake:
    """A planted mistake, the first seed that found it (None: none did), and the promises that it broke."""

    name: str
    seed: int | None
    promises: tuple[str, ...] = ()


def hunt(name: str, first: int = 1) -> FoundMistake:
    """Plant the mistake of this name, and run seeds from `first` on. Stop at the first seed whose run breaks a promise,
    if the same run without the mistake keeps that promise."""
    for seed in range(first, SEEDS_MAX + 1):
        with planted(name):
            run = run_plan(with_asks(draw_plan(seed, SECONDS)))
        if run.broken and (by_it := run.promises - run_plan(with_asks(draw_plan(seed, SECONDS))).promises):
            return FoundMistake(name, seed, tuple(sorted(by_it)))
    return FoundMistake(name, None)


def main() -> None:
    """Hunt the named mutants, all by default."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", choices=[*MUTANTS, []], metavar="NAME", help=f"of {', '.join(MUTANTS)}")
    parser.add_argument("--first", type=int, default=1, help="the seed to begin with [1]")
    given = parser.parse_args()
    names = given.names or list(MUTANTS)
    missed = False
    with ProcessPoolExecutor(cores(), mp_context=get_context("spawn")) as pool:
        for found in pool.map(hunt, names, [given.first] * len(names)):
            missed |= found.seed is None
            what = f"not by seeds {given.first} to {SEEDS_MAX}"
            if found.seed:
                what = f"seed {found.seed}: {', '.join(found.promises)}"
            print(f"{found.name:<32} {what}", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
