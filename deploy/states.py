"""Print the states of units into docs/format.md, from the rows of storage/format/states.py.

PYTHONPATH=. python deploy/states.py          rewrite the page
PYTHONPATH=. python deploy/states.py --check  fail if the page is not as it would be written
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from storage.format.states import PENDING, READY_WORD, STATES, State

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "format.md"
BEGIN: Final = "<!-- states: printed by deploy/states.py -->\n"
END: Final = "<!-- states: end -->\n"
HEAD: Final = """\
| what | name | pending | open | lives here | keeps its hour | `when` | people are told | in a history | since level |
|---|---|---|---|---|---|---|---|---|---|
"""


def printed(rows: Iterable[State]) -> str:
    """Return the table: a line for each state."""
    return HEAD + "".join(f"| {' | '.join(_cells(row))} |\n" for row in rows)


def _cells(row: State) -> list[str]:
    its = row.answers
    answers = (its.is_pending, its.is_open, its.lives_here, its.keeps_hour)
    what = str(row.number) if row.number != PENDING else "none"
    event = f"`{row.event}`" if row.number != PENDING else ""
    said = ["yes" if each else "no" for each in answers]
    return [what, f"`{row.name}`", *said, row.when, _told(row), event, str(row.since)]


def _told(row: State) -> str:
    if row.leaves is not None:
        return f"as of `{STATES[row.leaves].name}`"
    if not row.shown:
        return "of the place moved to"
    return f"`{row.word}`, `{READY_WORD}` once due" if row.answers.is_pending else f"`{row.word}`"


def page_with(page: str, table: str) -> str:
    """Return the page with this table."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{PAGE} has no place for the table"
    assert end, f"the table of {PAGE} has no end"
    return before + BEGIN + "\n" + table + "\n" + END + after


def main() -> int:
    """Rewrite the page, or compare it if `--check` is given. Return the exit status."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = page_with(page, printed(STATES.values()))
    if "--check" in sys.argv[1:]:
        return int(page != wanted)
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
