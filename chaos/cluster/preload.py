"""Small C libraries in front of the C library in one node's process: built once, loaded with LD_PRELOAD.

Such a library can do to one process what otherwise needs root or a machine of its own. It works wherever gcc does, and
can be changed while the node runs.
"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path


def build(source: Path, library: Path) -> None:
    """Compile `source` into `library` unless it is there. Raises RuntimeError without gcc or when gcc refuses."""
    if library.exists():
        return
    compiler = shutil.which("gcc")
    if compiler is None:
        raise RuntimeError(f"{source.name} needs gcc")
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(source), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")


def together(*environments: Mapping[str, str]) -> dict[str, str]:
    """Merge the environments of several libraries, so that all of them are loaded."""
    libraries = [environment["LD_PRELOAD"] for environment in environments if "LD_PRELOAD" in environment]
    merged = {name: value for environment in environments for name, value in environment.items()}
    return merged | {"LD_PRELOAD": ":".join(libraries)} if libraries else merged
