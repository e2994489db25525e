"""Renews constraints.txt, the versions with which Hourwheel is developed and tested. Nothing renews the file by itself.

`merge FROZEN...` takes the output of `pip freeze` under several Pythons. The files are named after the Pythons: 3.11,
3.12, ... It prints one file for all. A package whose versions differ has a line for each, with its Pythons. `lowest`
prints the lower end of each range in pyproject.toml, so that it can be tested too.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAD = "# Versions that Hourwheel is developed and tested with. Renewed by `make constraints`, never by hand."


def versions(frozen: str) -> dict[str, str]:
    """Return package -> version of the lines that name one. A package from elsewhere has no version."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)$", frozen, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def merged(by_python: dict[str, dict[str, str]]) -> list[str]:
    """Return the lines of the constraints file. The versions of the oldest Python hold for all older ones too, and
    those of the newest for all newer ones."""
    pythons = sorted(by_python, key=lambda python: int(python.split(".")[1]))
    lines = []
    for name in sorted({name for found in by_python.values() for name in found}):
        runs: list[tuple[str, str]] = []  # version, the first Python that has it
        for python in pythons:
            version = by_python[python].get(name)
            if version is not None and (not runs or runs[-1][0] != version):
                runs.append((version, python))
        for place, (version, first) in enumerate(runs):
            bounds = [f'python_version >= "{first}"'] if place else []
            bounds += [f'python_version < "{runs[place + 1][1]}"'] if place + 1 < len(runs) else []
            lines.append(f"{name}=={version}" + (f" ; {' and '.join(bounds)}" if bounds else ""))
    return lines


def lowest(project: str) -> list[str]:
    """Return `name==version` of the lower end of each dependency of the product."""
    dependencies = tomllib.loads(project)["project"]["dependencies"]
    ranges = [re.match(r"([A-Za-z0-9._-]+)[>=]=([0-9.]+)", each) for each in dependencies]
    assert all(ranges), f"a dependency without a lower end: {dependencies}"
    return [f"{each[1]}=={each[2]}" for each in ranges if each]


def main(arguments: list[str]) -> None:
    """Run `merge` or `lowest`."""
    if arguments[:1] == ["lowest"]:
        print("\n".join(lowest((ROOT / "pyproject.toml").read_text())))
    else:
        assert arguments[:1] == ["merge"], "merge FROZEN... or lowest"
        assert arguments[1:], "merge FROZEN... or lowest"
        print("\n".join([HEAD, *merged({Path(name).name: versions(Path(name).read_text()) for name in arguments[1:]})]))


if __name__ == "__main__":
    main(sys.argv[1:])
