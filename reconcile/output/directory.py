"""The directory that a reconciliation writes: new, or one of ours to be written again. Never anything else's.

```
OUT/ledger/*.parquet  duplicates/  canonical/  repairs/  receipts_unmatched/   report.json  report.html
    .work/    what tasks hand to each other; gone when the job ends
```
"""

import contextlib
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from reconcile.output.tables import (
    CANONICAL_SCHEMA,
    DUPLICATES_SCHEMA,
    LEDGER_SCHEMA,
    REPAIRS_SCHEMA,
    UNMATCHED_SCHEMA,
    write_parquet,
)

LEDGER_TABLE: Final = "ledger"
DUPLICATES_TABLE: Final = "duplicates"
CANONICAL_TABLE: Final = "canonical"
REPAIRS_TABLE: Final = "repairs"
UNMATCHED_TABLE: Final = "receipts_unmatched"
SCHEMAS: Final[dict[str, Any]] = {
    LEDGER_TABLE: LEDGER_SCHEMA,
    DUPLICATES_TABLE: DUPLICATES_SCHEMA,
    CANONICAL_TABLE: CANONICAL_SCHEMA,
    REPAIRS_TABLE: REPAIRS_SCHEMA,
    UNMATCHED_TABLE: UNMATCHED_SCHEMA,
}
REPORT: Final = "report.json"
REDELIVER_REFUSED: Final = "redeliver_refused"
"""The key of the report under which stands why nothing may be sent again: sentences, none if it may."""
PAGE: Final = "report.html"
_WORK: Final = ".work"
_OURS: Final = frozenset({*SCHEMAS, REPORT, f".{REPORT}", PAGE, f".{PAGE}", _WORK})


class OutputRefused(Exception):
    """The directory cannot be written to; says which and why."""


class Output:
    """An output directory, made ready on entering; `work` is its directory for what tasks hand on."""

    def __init__(self, path: Path, overwrite: bool = False) -> None:
        self.path = path.absolute()
        self.work = self.path / _WORK
        self._overwrite = overwrite
        self._made = False

    def __enter__(self) -> Self:
        """Raises OutputRefused: something is there already, or it cannot be made."""
        try:
            self._clear()
            self._made = not self.path.exists()
            for folder in (*SCHEMAS, _WORK):
                (self.path / folder).mkdir(parents=True)
        except OSError as error:
            raise OutputRefused(f"{self.path} cannot be written: {error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing stays of a run that failed without a report: begun again it would be refused its own directory."""
        shutil.rmtree(self.work, ignore_errors=True)
        if kind is not None and not (self.path / REPORT).exists():
            for folder in SCHEMAS:
                shutil.rmtree(self.path / folder, ignore_errors=True)
            if self._made:
                with contextlib.suppress(OSError):
                    self.path.rmdir()

    def keep(self, names: set[str]) -> None:
        """Removes the files of buckets that are there no more: their hour was unlinked, or begins elsewhere."""
        for folder in SCHEMAS:
            for path in (self.path / folder).glob("*.parquet"):
                if path.name not in names:
                    path.unlink()

    def complete(self) -> None:
        """A table without rows is a file without rows: whoever reads it finds its columns."""
        for folder, schema in SCHEMAS.items():
            if not any((self.path / folder).glob("*.parquet")):
                write_parquet(pa.Table.from_batches([], schema), self.path / folder / "none.parquet")

    def check(self) -> list[str]:
        """The names of what an earlier run wrote here, all of it ours. Changes nothing. Raises OutputRefused."""
        if not self.path.exists():
            return []
        if not self.path.is_dir():
            raise OutputRefused(f"{self.path} is there already, and is not a directory")
        there = sorted(child.name for child in self.path.iterdir())
        if there and not self._overwrite:
            raise OutputRefused(f"{self.path} is there already; name a new directory, or say --overwrite")
        foreign = [name for name in there if name not in _OURS]
        if foreign:
            raise OutputRefused(f"{self.path} holds {foreign[0]}, which no reconciliation wrote; name another one")
        return there

    def _clear(self) -> None:
        """Removes what an earlier run wrote, if that is wanted, and nothing else."""
        for name in self.check():
            child = self.path / name
            shutil.rmtree(child) if child.is_dir() else child.unlink()
