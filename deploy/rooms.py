"""Draw the rooms of the product into docs/architecture.md, from tests/tidy/rooms.toml and what each room says it is.

python deploy/rooms.py          rewrite the page
python deploy/rooms.py --check  fail if the page is not as it would be written
"""

import ast
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "architecture.md"
TABLE: Final = ROOT / "tests" / "tidy" / "rooms.toml"
BEGIN: Final = "<!-- rooms: drawn by deploy/rooms.py -->\n"
END: Final = "<!-- rooms: end -->\n"
#: In the order in which a message passes them.
DRAWN: Final = ("api", "node", "replication", "storage")


def package_rooms(rooms: Mapping[str, Sequence[str]], package: str) -> dict[str, set[str]]:
    """Return each room of a package with the rooms of the package that it imports. The package's own files are left
    out."""
    own = [name for name in rooms if name.startswith(f"{package}/")]
    return {name: {other for other in rooms[name] if other in own} for name in own}


def floors(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the rooms from the top floor to the bottom. Rooms that import each other in a circle are on one floor.
    Otherwise a room imports only rooms of lower floors."""
    floor: dict[str, int] = dict.fromkeys(imports, 0)
    for _ in imports:  # a circle rises each round, with all rooms above it; by then `_reached` tells it apart
        for name, others in imports.items():
            below = [floor[other] + 1 for other in others if name not in _reached(imports, other)]
            beside = [floor[other] for other in others if name in _reached(imports, other)]
            floor[name] = max([0, *below, *beside])
    return [sorted(name for name, at in floor.items() if at == level) for level in range(max(floor.values()), -1, -1)]


def _reached(imports: Mapping[str, set[str]], begin: str) -> set[str]:
    reached: set[str] = set()
    left = [begin]
    while left:
        name = left.pop()
        if name not in reached:
            reached.add(name)
            left += imports[name]
    return reached


def purpose(room: str) -> str:
    """Return the first line of a room's `__init__.py`, which says what the room is."""
    said = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))) or ""
    return said.splitlines()[0]


def drawing() -> str:
    """Return the floors of each package, and a row for each room."""
    rooms: dict[str, list[str]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))["rooms"]
    lines: list[str] = []
    for package in DRAWN:
        imports = package_rooms(rooms, package)
        levels = floors(imports)
        lines += [f"`{package}/`: {purpose(package)}", "", "```"]
        for number, names in zip(range(len(levels) - 1, -1, -1), levels, strict=True):
            lines.append(f"{number}  {'   '.join(name.removeprefix(f'{package}/') for name in names)}")
        lines += ["```", "", "| room | what it is |", "|---|---|"]
        lines += [f"| `{name}` | {purpose(name)} |" for names in levels for name in names]
        lines.append("")
    return "\n".join(lines) + "\n"


def drawn(page: str) -> str:
    """Return the page with the present drawing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{PAGE} has no place for the drawing"
    assert end, f"the drawing of {PAGE} has no end"
    return before + BEGIN + "\n" + drawing() + END + after


def main() -> int:
    """Rewrite the page, or compare it if `--check` is given. Return the exit status."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = drawn(page)
    if "--check" in sys.argv[1:]:
        return int(page != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
