"""Finds HOURWHEEL_* variables of the environment that no setting reads, and the nearest variable that one reads. A
misspelt override that is ignored in silence would be noticed only in production.

`hourwheel serve` names such variables on stderr and still starts: a variable may be meant for another build, or for a
tool beside the node.
"""

import difflib
from collections.abc import Mapping

import msgspec

from node.runtime.config import Config

PREFIX = "HOURWHEEL"
#: Read by the client's commands.
OTHERS = frozenset({"HOURWHEEL_URL"})


def known_variables(kind: type[msgspec.Struct] = Config, prefix: str = PREFIX) -> list[str]:
    """Return every variable that overrides a key of the config file."""
    found: list[str] = []
    for field in msgspec.structs.fields(kind):
        name = f"{prefix}_{field.name.upper()}"
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            found += known_variables(field.type, name)
        elif field.name != "peers":
            found.append(name)
    return found


def strangers(environ: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable with our prefix that no setting reads, in order of names."""
    known = known_variables()
    sentences = []
    for name in sorted(environ):
        if name.startswith(f"{PREFIX}_") and name not in known and name not in OTHERS:
            near = difflib.get_close_matches(name, known, 1)
            sentences.append(f"{name} is no setting and is ignored" + (f"; did you mean {near[0]}?" if near else ""))
    return sentences
