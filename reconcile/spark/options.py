"""The options of a table, as source.py tells of them, and what one task reads."""

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import InputPartition

from reconcile.spark.schema import TABLES
from reconcile.spark.slices import Slice


class Options:
    """The options of one table, checked. Raises ValueError naming the option."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.table = options.get("table", "")
        if self.table not in TABLES:
            raise ValueError(f"option table is {self.table!r}; it must be one of {', '.join(TABLES)}")
        self.paths = _paths(options)
        self.leave_out_damaged = _choice(options, "damaged", {"fail": False, "skip": True})
        self.fail_on_data_loss = _choice(options, "failOnDataLoss", {"true": True, "false": False})
        rows = options.get("maxRowsPerBatch", "0")
        if not rows.isdecimal():
            raise ValueError(f"option maxRowsPerBatch is {rows!r}; it must be a whole number, 0 for no limit")
        self.max_rows = int(rows)


class SlicePartition(InputPartition):
    """What one task reads."""

    def __init__(self, value: Slice) -> None:
        super().__init__(value)
        self.slice = value


def _paths(options: Mapping[str, str]) -> list[str]:
    """The directories: `path` as given to load, or `paths`, which Spark itself writes as a JSON list."""
    given = options.get("paths") or options.get("path") or ""
    if given.startswith("["):
        paths: Any = json.loads(given)
    else:
        paths = [path.strip() for path in given.split(",")]
    if not paths or not all(paths):
        raise ValueError('no path was given: load("/data/n1,/data/n2") names the nodes\' directories')
    return [str(path) for path in paths]


def _choice(options: Mapping[str, str], name: str, values: Mapping[str, bool]) -> bool:
    """The meaning of a word; the first is the default."""
    word = options.get(name, next(iter(values))).lower()
    if word not in values:
        raise ValueError(f"option {name} is {word!r}; it must be {' or '.join(values)}")
    return values[word]
