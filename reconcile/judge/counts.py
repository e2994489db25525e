"""What all buckets add up to, held against what was read: a count that does not match is told, never smoothed over.

| check | |
|---|---|
| classes | messages scheduled = the sum of the nine classes, duplicates = the sum of their causes (ledger.summary) |
| units | units of the hours = messages - those found in no hour + units that moves appended + unreadable ones |
| hand-overs | start and end records read = those given to a bucket + those that name none |
| ledger, duplicates, canonical | rows written = rows counted |
| receipts, acknowledged | rows read = the sum of their classes |
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ledger.bucket import Context, Rows
from ledger.columns import DELIVERED_CLASSES, Cause, Lost, MessageClass, word
from ledger.summary import Summary
from ledger.terms import rival_terms
from reconcile.files.inventory import Inventory
from reconcile.files.problem import TIMELESS, Problem
from reconcile.judge.buckets import BucketAnswer
from reconcile.judge.context import node_numbers
from reconcile.judge.first_pass import Survey
from reconcile.judge.outside_check import ACKNOWLEDGED, CLASSES, RECEIPTS
from reconcile.judge.outside_records import Said
from reconcile.judge.whole import redeliver_refused
from reconcile.output.directory import CANONICAL_TABLE, DUPLICATES_TABLE, LEDGER_TABLE, REDELIVER_REFUSED
from reconcile.output.tables import REDELIVER, SUPPRESS
from reconcile.report.figures import Figures

PROBLEMS_MAX: Final = 1000
"""Problems that are told one by one; the rest is counted."""
_HOW: Final = {0: "", 1: "handed_on", 2: "lost", 3: "stopped", 4: "killed"}


@dataclass(slots=True)
class Totals:
    """The answers of all buckets. `unplaced` hand-overs name buckets that no node has."""

    unplaced: int = 0
    summary: Summary = field(default_factory=Summary)
    figures: Figures = field(default_factory=Figures)
    hand_overs: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    repairs: dict[str, int] = field(default_factory=dict)
    said: dict[tuple[str, str], int] = field(default_factory=dict)
    unreadable: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, answer: BucketAnswer) -> None:
        """Takes in one bucket."""
        self.summary += answer.summary
        self.figures += answer.figures
        self.hand_overs += answer.hand_overs
        self.problems += answer.problems
        for name in ("rows", "repairs", "said", "unreadable"):
            counts, more = getattr(self, name), getattr(answer, name)
            for key, count in more.items():
                counts[key] = counts.get(key, 0) + count


def document_of(
    inventory: Inventory, surveyed: Survey, said: Mapping[str, Said], context: Context, totals: Totals
) -> dict[str, Any]:
    """The report: everything that was found, as JSON can say it."""
    names = {number: name for name, number in node_numbers(inventory, surveyed.accounts).items()}
    names = dict(inventory.members) | names
    problems = _problems(inventory, surveyed, said[RECEIPTS], totals)
    terms = _terms(context.terms, names)
    summary = totals.summary.document()
    heard = {source: _said(source, said[source], totals) for source in (RECEIPTS, ACKNOWLEDGED)}
    checks = _checks(inventory, surveyed, totals, heard)
    broken = totals.summary.broken()
    broken += _in_no_copy(inventory, totals)
    broken += [f"term {term} is claimed by several nodes" for term in rival_terms(surveyed.terms)]
    broken += [f"the counts of {check['name']} do not add up: {check['said']}" for check in checks if not check["held"]]
    by_term = {row["term"]: row for row in terms}
    for change in summary["term_changes"]:
        for side in ("from", "to"):
            change[f"node_{side}"] = by_term.get(change[f"{side}_term"], {}).get("node", "")
        change["at_ms"] = by_term.get(change["to_term"], {}).get("begun_ms", 0)
    return {
        **summary,
        "window": {"from_ms": max(context.from_ms, _earliest_ms(inventory)), "until_ms": context.until_ms},
        "cluster_id": inventory.cluster_id.hex(),
        "inputs": list(inventory.paths),
        "nodes": _nodes(context, names, surveyed),
        "terms": terms,
        "topics": _topics(totals.summary, context),
        "repairs": {action: totals.repairs.get(action, 0) for action in (REDELIVER, SUPPRESS)},
        REDELIVER_REFUSED: redeliver_refused(inventory, surveyed),
        **heard,
        "canonical": totals.rows.get(CANONICAL_TABLE, 0),
        "unreadable": totals.unreadable,
        "foreign": totals.summary.foreign + totals.unplaced,
        "checks": checks,
        "promises_broken": broken,
        "problems": [problem._asdict() for problem in problems[:PROBLEMS_MAX]],
        "problems_in_all": len(problems),
        "figures": totals.figures.document(),
    }


def _in_no_copy(inventory: Inventory, totals: Totals) -> list[str]:
    """What a checkpoint vouches for and no copy that was given has: messages are in no class because of it."""
    found = [
        f"{part.sealed_units - part.units} units of hour {part.hour}, and what became of them, are in no copy given"
        for part in inventory.hours
        if part.units < part.sealed_units
    ]
    found += [
        f"{part.sealed_settles - part.settles} settle records of hour {part.hour} are in no copy given"
        for part in inventory.hours
        if part.settles < part.sealed_settles
    ]
    there = {part.hour for part in inventory.hours}
    named = [{hour for hour, lengths in node.lengths.items() if lengths.units} for node in inventory.nodes]
    # An hour that only some checkpoints name is unlinked, or begun, on the others.
    gone = sorted(set.intersection(*named) - there) if named else []
    found += [f"hour {hour} is in no copy given" for hour in gone]
    for name, said in (("units", "units"), ("settles", "settle records")):
        if totals.unreadable.get(name, 0):
            found.append(f"{totals.unreadable[name]} {said} are whole in no copy given")
    return found


def _earliest_ms(inventory: Inventory) -> int:
    return inventory.hours[0].hour * 3_600_000 if inventory.hours else 0


def _problems(inventory: Inventory, surveyed: Survey, receipts: Said, totals: Totals) -> list[Problem]:
    """Each once: a damaged row is met by every task that reads its file."""
    what = "no two times, so they cover none: what nobody got is not told"
    timeless = receipts.rows and receipts.until_ms <= receipts.from_ms
    found = [Problem(TIMELESS, "", "receipts", what, receipts.rows)] if timeless else []
    return list(dict.fromkeys([*found, *inventory.problems, *surveyed.problems, *totals.problems]))


def _terms(terms: Rows, names: Mapping[int, str]) -> list[dict[str, Any]]:
    return [
        {
            "term": int(row["term"]),
            "node": names.get(int(row["node"]), f"#{row['node']}"),
            "begun_ms": int(row["begun_ms"]),
            "ended_ms": int(row["ended_ms"]),
            "seen_ms": int(row["seen_ms"]),
            "how": _HOW.get(int(row["how"]), str(row["how"])),
        }
        for row in terms
    ]


def _nodes(context: Context, names: Mapping[int, str], surveyed: Survey) -> list[dict[str, Any]]:
    """Each node with the time its account covers; without any, its directory was not given."""
    found = []
    for number in context.nodes:
        name = names.get(number, f"#{number}")
        spans = {
            kind: [[int(row["from_ms"]), int(row["until_ms"])] for row in rows[rows["node"] == number]]
            for kind, rows in (("covered", context.covered), ("gaps", context.gaps))
        }
        files = sum(account.node == name for account in surveyed.accounts)
        found.append({"node": name, "number": number, "delivery_files": files, **spans})
    return found


def _topics(summary: Summary, context: Context) -> list[dict[str, Any]]:
    found = []
    for number, counts in sorted(summary.topics.items()):
        topic = context.topics.get(number)
        found.append(
            {
                "topic": topic.name if topic else f"#{number}",
                "mode": ("push" if topic.push else "pull") if topic else "",
                "strict": bool(topic and topic.strict),
                "messages": sum(counts.values()),
                **{word(kind): counts.get(kind, 0) for kind in MessageClass},
            }
        )
    return found


def _said(source: str, said: Said, totals: Totals) -> dict[str, Any]:
    """Rows of receipts or acknowledgements by class, and some ids that are none."""
    counts = {name: totals.said.get((source, name), 0) + said.counts.get(name, 0) for name in CLASSES}
    return {"rows": said.rows, **counts, "examples": said.examples, "from_ms": said.from_ms, "until_ms": said.until_ms}


def _checks(
    inventory: Inventory, surveyed: Survey, totals: Totals, heard: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Each check with what it held against what."""
    summary = totals.summary
    wrong = summary.wrong()
    counted = " + ".join(f"{word(kind)} {summary.classes.get(kind, 0)}" for kind in MessageClass)
    checks = [{"name": "classes", "held": not wrong, "said": "; ".join(wrong) or f"{summary.scheduled} = {counted}"}]
    units = sum(part.units for part in inventory.hours)
    missing = summary.lost.get(Lost.NOT_FOUND, 0)
    messages = summary.scheduled - missing + surveyed.moved + totals.unreadable.get("units", 0)
    hand_overs = totals.hand_overs + totals.unplaced
    twice = summary.causes.get(Cause.SCHEDULED_TWICE, 0)
    delivered = sum(summary.classes.get(kind, 0) for kind in DELIVERED_CLASSES)
    canonical = totals.rows.get(CANONICAL_TABLE, 0)
    for name, left, right, said in (
        ("units", units, messages, "units = messages - found in no hour + moved + unreadable"),
        ("hand-overs", surveyed.hand_overs, hand_overs, "read = given to a bucket + of no bucket"),
        ("ledger", totals.rows.get(LEDGER_TABLE, 0), summary.scheduled, "rows written = messages"),
        ("duplicates", totals.rows.get(DUPLICATES_TABLE, 0), summary.duplicates + twice, "rows written = duplicates"),
    ):
        checks.append({"name": name, "held": left == right, "said": f"{said}: {left} = {right}"})
    said = f"{delivered - twice} <= {canonical} <= {delivered}: each delivered message once, of twins the first alone"
    checks.append({"name": "canonical", "held": delivered - twice <= canonical <= delivered, "said": said})
    for source, row in heard.items():
        classes = sum(int(row[name]) for name in CLASSES)
        said = f"rows read = the sum of their classes: {row['rows']} = {classes}"
        checks.append({"name": source, "held": row["rows"] == classes, "said": said})
    return checks
