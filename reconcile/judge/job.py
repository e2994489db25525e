"""The reconciliation: everything that was scheduled, settled and delivered, joined, judged, and written down.

```
 inventory ---> survey: a task a delivery file ---> context, rows set aside ---> a task a bucket ---> report.json
   files         terms, gaps, strays                 window, coverage              read, judge,         report.html
                                                                                   write Parquet
 receipts, acknowledgements ---> decoded, set aside ----------------------------^
```
A message's id is a position, so nothing is hashed or sorted to join it: what is about a message stands in the files of
its hour, or is set aside for its bucket while the files are surveyed. Spark gives out the work, reads the receipts, and
runs a task again when its worker dies; the bulk never passes through it. Memory is that of one bucket for each core.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from ledger.bucket import Context
from reconcile.files.inventory import HourPart, Inventory, Span
from reconcile.files.problem import DataRefused
from reconcile.judge.buckets import GROUP, BucketAnswer, BucketTask, Setting, reckon
from reconcile.judge.context import context_of
from reconcile.judge.counts import Totals, document_of
from reconcile.judge.first_pass import Survey, SurveyTask, spans_of, survey, survey_tasks
from reconcile.judge.outside_check import ACKNOWLEDGED, RECEIPTS
from reconcile.judge.outside_records import Said, read_said
from reconcile.judge.shuffle import BUCKET_BITS, Piece, by_bucket
from reconcile.output.directory import REPORT, Output
from reconcile.report.page import write as write_page
from reconcile.spark.tasks import run_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Request:
    """What to reconcile. `options` are fields of ledger.bucket.Context given from outside (late_ms, grace_ms ...);
    `receipts_of` are the topics whose consumers gave receipts, none: all of them did."""

    data: Sequence[Path]
    out: Path
    receipts: Sequence[Path] = ()
    acknowledged: Sequence[Path] = ()
    receipts_of: Sequence[str] = ()
    overwrite: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetAside:
    """Rows that wait for their bucket, by (hour, number of the bucket)."""

    strays: dict[tuple[int, int], list[Piece]]
    places: dict[tuple[int, int], list[Piece]]
    abroad: dict[tuple[int, int], list[Piece]]
    receipts: dict[tuple[int, int], list[Piece]]
    acknowledged: dict[tuple[int, int], list[Piece]]


def reconcile(spark: "SparkSession | None", request: Request) -> dict[str, Any]:
    """Carries it out and returns the report's document, which is also in report.json. `promises_broken` is a list of
    sentences, empty when all were kept. Without Spark all is done in this process; receipts need it to be read.

    Raises DataRefused and OutputRefused: data, receipts or output directory are not what is needed.
    """
    Inventory.open(request.data)  # what is wrong with it is told before anything is written
    with Output(request.out, request.overwrite) as output:
        return Reconciliation(spark, request, output).refresh()


class Reconciliation:
    """A ledger that can be brought up to date: what has not changed since the last time is not done again.

    A task is plain data that names files with their lengths, so one that is equal to last time's has the same answer.
    The exception is time itself: a bucket with open messages is judged again, since they fall due and leases end.
    """

    def __init__(self, spark: "SparkSession | None", request: Request, output: Output) -> None:
        self._spark = spark
        self._request = request
        self._output = output
        self._surveys: dict[SurveyTask, Survey] = {}
        self._answers: dict[BucketTask, BucketAnswer] = {}
        self._said: dict[str, Said] | None = None
        self.judged = 0
        """Buckets judged by the last refresh."""

    def refresh(self) -> dict[str, Any]:
        """Looks at the data as it is now, and writes tables and report anew where they differ; the report's document.

        Raises DataRefused.
        """
        begun = time.monotonic()
        inventory = Inventory.open(self._request.data)
        surveyed = self._survey(inventory)
        if self._said is None:
            self._said = {
                source: read_said(self._spark, paths, source, self._output.work, GROUP)
                for source, paths in ((RECEIPTS, self._request.receipts), (ACKNOWLEDGED, self._request.acknowledged))
            }
        options = {**self._request.options, "receipt_topics": topics_named(inventory, self._request.receipts_of)}
        context = context_of(inventory, surveyed, self._said[RECEIPTS], options)
        totals = self._judge(inventory, surveyed, context)
        self._output.complete()
        document = document_of(inventory, surveyed, self._said, context, totals)
        document["took_s"] = round(time.monotonic() - begun, 3)
        write_report(self._output.path, document)
        return document

    def _survey(self, inventory: Inventory) -> Survey:
        tasks = survey_tasks(inventory)
        fresh = [task for task in tasks if task not in self._surveys]
        work = self._output.work
        found = dict(zip(fresh, run_stage(self._spark, fresh, partial(survey, scratch=work), work), strict=True))
        self._surveys = {task: found[task] if task in found else self._surveys[task] for task in tasks}
        total = Survey()
        for one in self._surveys.values():
            total.add(one)
        return total

    def _judge(self, inventory: Inventory, surveyed: Survey, context: Context) -> Totals:
        """Judges the buckets that have changed, and adds up all."""
        assert self._said is not None
        names = {number: topic.name for number, topic in inventory.topics.items()}
        aside = set_aside(surveyed, self._said)
        tasks = bucket_tasks(inventory, aside)
        known = {task: answer for task, answer in self._answers.items() if not answer.open}
        fresh = [task for task in tasks if task not in known]
        work = partial(reckon, setting=Setting(self._output.path, GROUP, context, names))
        found = dict(zip(fresh, run_stage(self._spark, fresh, work, self._output.work), strict=True))
        self.judged = len(fresh)
        self._answers = {task: found[task] if task in found else known[task] for task in tasks}
        self._output.keep({task.name for task in tasks})
        totals = Totals(unplaced=unplaced(tasks, aside))
        for answer in self._answers.values():
            totals.add(answer)
        return totals


def keep_current(
    spark: "SparkSession | None", request: Request, every_s: float, ended: Event, told: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Refreshes every `every_s` seconds, measured from one begin to the next, until `ended`; `told` gets each report.

    There is no state but what is on disk: when this ends, however it does, the next one begins from the files. A
    refresh costs what was appended since the last one: the files of a delivery log end at 64 MB, and only hours whose
    files grew, or that have open messages, are judged again. Raises as reconcile does.
    """
    Inventory.open(request.data)
    with Output(request.out, request.overwrite) as output:
        reconciliation = Reconciliation(spark, request, output)
        while True:
            begun = time.monotonic()
            document = reconciliation.refresh()
            told(document)
            if ended.wait(max(0.0, begun + every_s - time.monotonic())):
                return document


def write_report(out: Path, document: Mapping[str, Any]) -> None:
    """report.json and the page drawn from it; each is there whole or not at all."""
    part = out / f".{REPORT}"
    part.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(part, out / REPORT)
    write_page(out, dict(document))


def topics_named(inventory: Inventory, names: Sequence[str]) -> frozenset[int] | None:
    """Numbers of the topics with these names; None for none. Raises DataRefused for a name that no topic has."""
    numbers = {topic.name: number for number, topic in inventory.topics.items()}
    unknown = [name for name in names if name not in numbers]
    if unknown:
        raise DataRefused(f"no topic is called {unknown[0]}; there are {', '.join(sorted(numbers)) or 'none'}")
    return frozenset(numbers[name] for name in names) if names else None


def set_aside(surveyed: Survey, said: Mapping[str, Said]) -> SetAside:
    """All pieces by the bucket that they are for."""
    return SetAside(
        by_bucket(surveyed.strays),
        by_bucket(surveyed.places),
        by_bucket(surveyed.abroad),
        by_bucket(said[RECEIPTS].pieces),
        by_bucket(said[ACKNOWLEDGED].pieces),
    )


def bucket_tasks(inventory: Inventory, aside: SetAside) -> list[BucketTask]:
    """A task for each bucket that has units, in order, and for each that only receipts or acknowledgements name."""
    sources: dict[int, list[Any]] = {}
    for source in inventory.deliveries:
        sources.setdefault(source.hour, []).append(source)
    found: dict[tuple[int, int], list[tuple[HourPart | None, Span]]] = {}
    for part in inventory.hours:
        for span in spans_of(part):
            found.setdefault((span.hour, span.first >> BUCKET_BITS), []).append((part, span))
    for hour, number in (*aside.receipts, *aside.acknowledged):
        found.setdefault((hour, number), [(None, Span(hour, number << BUCKET_BITS, 0))])
    tasks = []
    for key, pieces in sorted(found.items()):
        hour, number = key
        for place, (whole, span) in enumerate(pieces):
            first = span.first if place else number << BUCKET_BITS
            following = pieces[place + 1][1].first if place + 1 < len(pieces) else (number + 1) << BUCKET_BITS
            tasks.append(
                BucketTask(
                    whole,
                    span,
                    first,
                    following,
                    sources=tuple(sources.get(hour, ())) if whole is not None else (),
                    strays=tuple(aside.strays.get(key, ())),
                    places=tuple(aside.places.get(key, ())),
                    abroad=tuple(aside.abroad.get(key, ())),
                    receipts=tuple(aside.receipts.get(key, ())),
                    acknowledged=tuple(aside.acknowledged.get(key, ())),
                    earlier=tuple(aside.strays.get((hour, number - 1), ())),
                )
            )
    return tasks


def unplaced(tasks: Sequence[BucketTask], aside: SetAside) -> int:
    """Hand-overs that were set aside for a bucket without any unit, which nobody will judge."""
    judged = {(task.span.hour, task.owned_first >> BUCKET_BITS) for task in tasks if task.part is not None}
    return sum(piece.rows for key, pieces in aside.strays.items() if key not in judged for piece in pieces)
