"""Compares an hour's states files with its settle records: a part of `verify`.

A file that no start would use any more (the checkpoint does not reach as far) is left out. The next checkpoint removes
it. A file that counts must hold the same states of its units as the records, no more and no less.
"""

import numpy as np

from storage.file.disk import DiskFailed
from storage.file.hour_file import HourFiles
from storage.format.rows import Corrupt, FormatRefused, Settles
from storage.state.file import ROW, Rows, newest_of, rows_of
from storage.state.files import Span, StateFiles, open_span, spans_in


class StateCheck:
    """Compares the states files of an hour with its `settles` settle records. `take` gets all of them in order. Each
    fault is added to `faults` as a line."""

    def __init__(self, files: HourFiles, settles: int, faults: list[str]) -> None:
        self._files = files
        self._faults = faults
        names = files.disk.list_directory(files.directory)
        self._spans = spans_in(names, settles)
        self._rows: Rows = np.empty(0, ROW)
        self._forwards = False

    def take(self, settles: Settles, first: int) -> None:
        """Take the next settle records, of which the first has ordinal `first`. Compare each states file once its
        records are there."""
        while self._spans and len(settles):
            begin, end = self._spans[0]
            part = settles[: end - first]
            rows, forwards = rows_of(part, first, self._files.index.first)
            self._rows, self._forwards = newest_of([self._rows, rows]), self._forwards or forwards
            if first + len(part) < end:
                return
            self._compare((begin, end))
            self._rows, self._forwards = np.empty(0, ROW), False
            del self._spans[0]
            settles, first = settles[len(part) :], first + len(part)

    def _compare(self, span: Span) -> None:
        try:
            file = open_span(self._files, span)
        except (Corrupt, FormatRefused, DiskFailed) as error:
            self._faults.append(str(error))
            return
        try:
            rows = newest_of(StateFiles([file]).read(0, len(file.pages)))
            if rows.tobytes() != self._rows.tobytes() or file.forwards != self._forwards:
                told = f"{len(rows)} units, forwarded {file.forwards}"
                expected = f"what its records say: {len(self._rows)} units, forwarded {self._forwards}"
                raise Corrupt(file.name, 0, "states", told, expected)
            file.check_pages(rows)
        except (Corrupt, DiskFailed) as error:
            self._faults.append(str(error))
        finally:
            file.close()
