"""What a target of the Makefile sets up: what it needs, and no more."""

import contextlib
import importlib.metadata
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cli.local.local_nodes import this_build
from tests.cli.run.test_dev import END_S, described, free_range
from tests.tidy.tracked import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ALONE = {
    "demo": "bench.demo.demo",
    "fuzz-frames": "chaos.live.fuzz_frames",
    "hostile": "chaos.hostile.run",
    "soak-delivery": "chaos.hostile.soak",
    "soak-sim": "chaos.simulator.seeds",
    "soak-mutants": "chaos.simulator.hunt",
}
"""Targets that have the product's own packages, and what they run."""

LOADED = """
import importlib, importlib.metadata, sys
importlib.import_module(sys.argv[1])
known = importlib.metadata.packages_distributions()
print(*{name for module in sys.modules for name in known.get(module.split(".")[0], [])})
"""


def steps(target: str, directory: Path) -> list[str]:
    """What make would do for this target in a fresh checkout, a command a line."""
    command = ["make", "--no-print-directory", "--dry-run", f"VENV={directory / 'none'}", target]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def extras(target: str, directory: Path) -> set[str]:
    """What is installed of the project, of all steps."""
    return {found for step in steps(target, directory) for found in re.findall(r"--editable '?(\.[^ ']*)", step)}


def normal(name: str) -> str:
    """A distribution's name as all agree on it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed() -> set[str]:
    """The distributions that the product depends on, with what these depend on."""
    found: set[str] = set()
    asked = [*PROJECT["dependencies"]]
    while asked:
        name = normal(re.split(r"[^\w.-]", asked.pop())[0])
        if name not in found:
            found.add(name)
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # of another Python or system
                asked += [each for each in importlib.metadata.requires(name) or [] if "extra ==" not in each]
    return found


@pytest.mark.parametrize("target", ALONE)
def test_a_demo_installs_the_product_alone(target: str, tmp_path: Path) -> None:
    """No Spark, no Java, no linter: 125 MB in place of 1.3 GB."""
    assert extras(target, tmp_path) == {"."}


@pytest.mark.parametrize(("target", "last"), [("reconcile-demo", ".[spark]"), ("check", ".[dev,spark]")])
def test_more_comes_with_the_target_that_needs_it(target: str, last: str, tmp_path: Path) -> None:
    """Into the same environment, where what is there stays."""
    assert last in extras(target, tmp_path)


@pytest.mark.parametrize("target", ["demo", "reconcile-demo", "check"])
def test_each_install_is_held_and_told(target: str, tmp_path: Path) -> None:
    """By the constraints; a line says what comes and how large it is, before the silence begins."""
    said = False
    for step in steps(target, tmp_path):
        said = said or bool(re.match(r'echo "setting up .* \([\d.]+ [MG]B', step))
        if "--editable" in step:
            assert said
            assert "--constraint constraints.txt" in step


@pytest.mark.parametrize("module", ALONE.values())
def test_what_they_run_needs_no_more(module: str) -> None:
    """Of others' packages it imports the product's dependencies and theirs."""
    done = subprocess.run([sys.executable, "-c", LOADED, module], cwd=ROOT, check=True, capture_output=True, text=True)
    assert {normal(name) for name in done.stdout.split()} - needed() - {"hourwheel", "setuptools"} == set()


def test_the_demo_ends_with_three_commands_that_work(tmp_path: Path) -> None:
    """A cluster, a message, and the message again."""
    echoes = [step for step in steps("demo", tmp_path) if step.startswith('echo "  ')]
    said = subprocess.run(["bash", "-c", "\n".join(echoes)], check=True, capture_output=True, text=True).stdout
    dev, *others = [shlex.split(line)[1:] for line in said.splitlines()]
    assert [dev[0], *(words[0] for words in others)] == ["dev", "schedule", "pull"]
    command, port = [sys.executable, "-m", "cli"], free_range(3)
    environment = this_build() | {"HOURWHEEL_URL": f"http://127.0.0.1:{port}"}
    with subprocess.Popen(
        [*command, *dev, "--port", str(port), "-o", "json"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            described(process)
            answers = [
                subprocess.run([*command, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
                for words in others
            ]
            assert [answer.returncode for answer in answers] == [0, 0], answers
            assert '{"order": 7}' in answers[1].stdout.replace('{"order":7}', '{"order": 7}')
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(END_S) == 0
