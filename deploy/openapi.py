"""Print docs/openapi.json from the routes of the HTTP API, the fields of a message and the table of errors.

python deploy/openapi.py          rewrite the file
python deploy/openapi.py --check  fail if it is not as it would be written
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
FILE: Final = ROOT / "docs" / "openapi.json"
WIDTH: Final = 120


def printed() -> str:
    """Return what docs/openapi.json has to be for this tree."""
    sys.path.insert(0, str(ROOT))
    from api.contract.openapi import document
    from api.serve import ROUTES

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return written(document(ROUTES, project["version"])) + "\n"


def written(value: Any, indent: int = 0, taken: int = 0) -> str:
    """Return a value as JSON. A value that fits on a line is written on one line. `taken`: the number of other
    characters on that line, beside the indentation."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(line) + taken + indent <= WIDTH:
        return line
    before = " " * (indent + 1)
    if isinstance(value, list):
        rows = [before + written(each, indent + 1, 1) for each in value]
        return "[\n" + ",\n".join(rows) + "\n" + " " * indent + "]"
    names = {name: f"{json.dumps(name, ensure_ascii=False)}: " for name in value}
    rows = [before + names[name] + written(each, indent + 1, len(names[name]) + 1) for name, each in value.items()]
    return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"


def main() -> int:
    """Rewrite the file, or compare it if `--check` is given. Return the exit status."""
    wanted = printed()
    if "--check" in sys.argv[1:]:
        return int(FILE.read_text(encoding="utf-8") != wanted)
    FILE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
