"""`make soak-chaos`: one `hourwheel chaos run` for each of several seeds. Prints each verdict, and a summary at the
end.

A run that broke a promise, or whose cluster did not heal, does not end the others. The files of each run stay below
`--out`, by seed. What it printed is in its `said.txt`. Exit status 1 if any run failed.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

#: Begins of the lines that are a run's verdict.
_TELLING: Final = ("VIOLATIONS:", "violations:", "hourwheel:", "BROKEN:")


class Verdict(NamedTuple):
    """The verdict of one seed. `status` is the exit status of its run, 0 if it is green. `said` are the lines of its
    output that tell why it is red, or how much was shown."""

    seed: int
    status: int
    said: tuple[str, ...]

    def describe(self) -> str:
        """Return a line, and below it the lines that tell why."""
        lines = self.said or ("it said nothing",)
        return "\n".join([f"seed {self.seed}: {'RED' if self.status else 'green'}: {lines[0]}", *lines[1:]])


def soak(seeds: Iterable[int], run: Callable[[int], Verdict], say: Callable[[str], None]) -> int:
    """Run all seeds, one after the other. Return how many were red."""
    red = [verdict.seed for verdict in _told(seeds, run, say) if verdict.status]
    say(f"red: {len(red)}" + (f" (seeds {', '.join(map(str, red))})" if red else ""))
    return len(red)


def _told(seeds: Iterable[int], run: Callable[[int], Verdict], say: Callable[[str], None]) -> Iterable[Verdict]:
    for seed in seeds:
        verdict = run(seed)
        say(verdict.describe())
        yield verdict


def run_seed(seed: int, out: Path, arguments: list[str]) -> Verdict:
    """Run `hourwheel chaos run` in a process of its own: its mounts and namespaces end with it."""
    command = [sys.executable, "-m", "cli", "chaos", "run", "--seed", str(seed), *arguments, "--out", str(out)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    out.mkdir(parents=True, exist_ok=True)
    (out / "said.txt").write_text(done.stdout, encoding="utf-8")
    return Verdict(seed, done.returncode, telling(done.stdout))


def telling(text: str) -> tuple[str, ...]:
    """The lines of a run's output that are its verdict."""
    return tuple(line for line in text.splitlines() if line.startswith(_TELLING))


def main() -> None:
    """Run the seeds of the command line. Exit with 1 if any of them is red."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="990101:990121", help="A:B, seeds A to B-1 (default: %(default)s)")
    parser.add_argument("--duration", default="3m", help="of each (default: %(default)s)")
    parser.add_argument("--rate", default="1000", help="messages a second (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("chaos-data/soak"), help="(default: %(default)s)")
    given = parser.parse_args()
    first, end = map(int, given.seeds.split(":"))
    arguments = ["--duration", given.duration, "--rate", given.rate]

    def say(line: str) -> None:
        print(line, flush=True)

    red = soak(range(first, end), lambda seed: run_seed(seed, given.out / str(seed), arguments), say)
    sys.exit(1 if red else 0)


if __name__ == "__main__":
    main()
