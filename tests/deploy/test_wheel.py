"""The wheel, installed as a user would: alone in an environment, and run in an empty directory."""

import contextlib
import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.run.test_dev import END_S, free_range
from tests.deploy.test_images import SHIPPED
from tests.tidy.tracked import ROOT, tracked

NOBODY = 65_534
SETUPTOOLS_MIN = 77
"""As pyproject.toml asks of what builds."""


@dataclass(frozen=True)
class Installed:
    """The command in an environment, the directory to run it in, and the user who does."""

    command: Path
    directory: Path
    user: int | None

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """The command at work, in another time zone and without a language."""
        environment = {"HOME": str(self.directory), "PATH": os.defpath, "LANG": "C", "TZ": "Asia/Kathmandu"}
        return subprocess.Popen(
            [self.command, *words],
            cwd=self.directory,
            env=environment,
            user=self.user,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        """What it printed, when it has ended with this code."""
        with self.start(*words) as process:
            output, errors = process.communicate(timeout=END_S)
        assert process.returncode == code, output + errors
        return output if code == 0 else errors


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what git tracks: building writes beside the sources."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for path in tracked("*"):
        if path.relative_to(ROOT).parts[0] in (*SHIPPED, "bench", "chaos", "pyproject.toml", "README.md", "LICENSE"):
            target = source / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    offline = ["--no-build-isolation"] if has_setuptools() else []
    pip(["wheel", "--no-deps", *offline, "--wheel-dir", str(built), str(source)])
    (found,) = built.iterdir()
    return found


def has_setuptools() -> bool:
    """True if this environment can build; pip gets what builds otherwise."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return int(importlib.metadata.version("setuptools").split(".")[0]) >= SETUPTOOLS_MIN
    return False


def pip(words: list[str]) -> None:
    """Run pip of this Python, away from the checkout: pip takes what was built there for an installed Hourwheel."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def environment(home: Path, python: str, wheel: Path) -> Path:
    """A fresh one of this Python with the wheel; its interpreter. Dependencies come from the environment of these
    tests, by a .pth file that does not reach its editable install."""
    subprocess.run([python, "-m", "venv", "--without-pip", home], check=True, capture_output=True)
    pip(["--python", str(home / "bin" / "python"), "install", "--no-deps", "--no-index", str(wheel)])
    (site_packages,) = home.glob("lib/python*/site-packages")
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin" / "python"


def runs_as_nobody(python: Path, directory: Path) -> bool:
    """True if a user without rights may run it, and read what it imports."""
    os.chown(directory, NOBODY, -1)
    with contextlib.suppress(PermissionError, subprocess.CalledProcessError):
        subprocess.run(
            [python, "-c", "import aiohttp, numpy"], user=NOBODY, check=True, cwd=directory, capture_output=True
        )
        return True
    os.chown(directory, os.getuid(), -1)
    return False


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Iterator[Installed]:
    """In a fresh environment, in a path with a space. Root runs it as nobody, by an interpreter that nobody may run:
    this one, or the system's of the same version; where there is none, as root."""
    with tempfile.TemporaryDirectory(prefix="hourwheel ") as name:
        home, user = Path(name).resolve(), None
        home.chmod(0o755)
        directory = home / "empty"
        directory.mkdir()
        python = environment(home / "a venv", sys.executable, wheel)
        if os.getuid() == 0:
            same = shutil.which(f"python3.{sys.version_info.minor}", path=os.defpath)
            for found in [python, *([environment(home / "another venv", same, wheel)] if same else [])]:
                if user is None and runs_as_nobody(found, directory):
                    python, user = found, NOBODY
        yield Installed(python.with_name("hourwheel"), directory, user)


def test_the_wheel_has_what_runs_and_no_more(wheel: Path) -> None:
    """No benchmark, no chaos test and no test; the report's template is there."""
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    assert sorted({name.split("/")[0] for name in names if ".dist-info/" not in name}) == sorted(
        "hourwheel" if package == "client" else package for package in SHIPPED
    )
    assert any(name.endswith(".j2") for name in names)


def test_an_installed_wheel_runs_a_cluster_in_an_empty_directory(installed: Installed) -> None:
    """Schedule, pull, ack, and stop, by the installed command alone."""
    port = free_range(1)
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(
            installed.start("dev", "--dir", "d", "--nodes", "1", "--port", str(port), "-o", "json")
        )
        stack.callback(process.kill)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()
        (node,) = json.loads(line)["nodes"]
        url = ("--url", node["http"], "-o", "json")
        scheduled = json.loads(installed.run("schedule", "orders", '"here"', *url))
        (message,) = json.loads(installed.run("pull", "orders", "--wait", "20", *url))["messages"]
        assert (message["id"], message["body"]) == (scheduled["id"], "here")
        assert "acked" in installed.run("ack", "orders", message["receipt"], *url)
        process.send_signal(signal.SIGTERM)
        assert process.wait(END_S) == 0
        assert "Traceback" not in (installed.directory / node["log"]).read_text()
    # Besides the data there is the user's cache: the members that the commands saw.
    assert sorted(path.name for path in installed.directory.iterdir()) == [".cache", "d"]


def test_chaos_says_that_it_needs_a_checkout(installed: Installed) -> None:
    """One line, and the exit code of a wrong use."""
    said = installed.run("chaos", "sim", "--seed", "1", code=2)
    assert said == "hourwheel: chaos is not in the wheel: run this in a checkout of Hourwheel\n"
