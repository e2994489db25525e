"""report.html: one page that stands alone, made from report.json and nothing else.

Whatever the document lacks the page leaves out; whatever it says is shown, so that a word or a topic the page does not
know yet is still there. Pictures are inline SVG in the page's own colours, light or dark as the reader's screen is.
"""

import itertools
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from reconcile.output.directory import PAGE, REDELIVER_REFUSED
from reconcile.report import pictures
from reconcile.report.palette import (
    AMBER,
    BLUE,
    FAINT,
    GREY,
    INK,
    PAPER,
    RED,
    SKY,
    SOFT,
    TEAL,
    VARIABLES,
    VIOLET,
    inline,
    style,
)
from reconcile.report.words import CAUSES, CLASSES, FLAGS, LATE_CAUSES, LOST, SPAN_MAX_MS

Document = Mapping[str, Any]
#: On a dark screen.
_DARK: Final = {
    INK: "#e6ebf1",
    SOFT: "#98a4b3",
    FAINT: "#2b333d",
    PAPER: "#151b23",
    BLUE: "#5b9bf3",
    SKY: "#4d8fd6",
    TEAL: "#2fb8a0",
    AMBER: "#e3a13a",
    RED: "#f0705a",
    VIOLET: "#b18be6",
    GREY: "#7d8997",
}
CHANGES_DRAWN: Final = 12
CHANGES_LISTED: Final = 60
PROBLEMS_LISTED: Final = 50


def write(out: Path, document: Document) -> Path:
    """Writes `out`/report.html from what report.json holds, whole or not at all; the file."""
    path, part = out / PAGE, out / f".{PAGE}"
    part.write_text(render(document), encoding="utf-8")
    os.replace(part, path)
    return path


def render(document: Document) -> str:
    """The page. Raises KeyError without `classes`, `scheduled` or `window`."""
    environment = Environment(
        loader=PackageLoader("reconcile.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=False
    )
    changes = _changes(document)
    drawn = _drawn(document, changes)
    listed = changes if len(changes) <= CHANGES_LISTED else [row for row in changes if row["duplicates"]]
    problems = list(document.get("problems", ()))
    flags = {word: count for word, count in document.get("flags", {}).items() if count}
    return environment.get_template("page.html.j2").render(
        document={"cluster_id": "", "inputs": [], "took_s": 0, **document},
        colours={VARIABLES[colour]: (colour, dark) for colour, dark in _DARK.items()},
        scheduled=f"{document['scheduled']:,}",
        window=_window(document["window"]),
        broken=list(document.get("promises_broken", ())),
        nodes=list(document.get("nodes", ())),
        cards=_cards(document),
        classes=_classes(document),
        sum=sum(document["classes"].values()),
        lost={word: count for word, count in document.get("lost", {}).items() if count},
        flags=flags,
        unused=", ".join(FLAGS[word].title.lower() for word in FLAGS if document.get("flags") and word not in flags),
        late_causes=document.get("late_causes", {}) if flags.get("late") else {},
        causes=[_row(CAUSES, word, count) for word, count in document.get("causes", {}).items()],
        duplicates=sum(document.get("causes", {}).values()),
        changes=listed,
        more_changes=len(changes) - len(listed),
        around_drawn=len(drawn),
        around_left_out=len(drawn) < len(document.get("figures", {}).get("around", ())),
        span_max=SPAN_MAX_MS,
        said={"lost": LOST, "flags": FLAGS, "late_causes": LATE_CAUSES},
        problems=problems[:PROBLEMS_LISTED],
        more_problems=document.get("problems_in_all", len(problems)) - len(problems[:PROBLEMS_LISTED]),
        tables=_tables(document),
        checks=list(document.get("checks", ())),
        pictures=_pictures(document, changes, drawn),
    )


def _moment(at_ms: float) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _window(window: Document) -> str:
    from_ms, until_ms = window["from_ms"], window["until_ms"]
    until = f"until {_moment(until_ms)} UTC"
    return f"{_moment(from_ms)} {until}" if from_ms > 0 else f"all that was kept {until}"


def _share(count: int, of: int) -> str:
    share = 100 * count / of if of else 0.0
    return "0 %" if not count else "< 0.001 %" if share < 0.001 else f"{share:.3f} %" if share < 99.9995 else "100 %"


def _row(said: Mapping[str, Any], word: str, count: int) -> dict[str, Any]:
    title, sentence, colour = said.get(word, (word, "", SOFT))
    return {"title": title, "sentence": sentence, "count": count, "colour": f"var({VARIABLES[colour]})"}


def _classes(document: Document) -> list[dict[str, Any]]:
    scheduled = document["scheduled"]
    most = max(document["classes"].values(), default=0) or 1
    rows = []
    for word, count in document["classes"].items():
        more = {"share": _share(count, scheduled), "width": round(100 * count / most, 2)}
        rows.append(_row(CLASSES, word, count) | more)
    return rows


def _cards(document: Document) -> list[dict[str, Any]]:
    classes, causes = document["classes"], document.get("causes", {})
    late = document.get("figures", {}).get("lateness_ms", {})
    cards = [
        {"title": "messages scheduled", "value": f"{document['scheduled']:,}", "bad": False},
        {"title": "delivered once", "value": f"{classes.get('delivered_once', 0):,}", "bad": False},
        {"title": "duplicate hand-overs", "value": f"{sum(causes.values()):,}", "bad": False},
        {"title": "unexplained", "value": f"{causes.get('unexplained', 0):,}", "bad": causes.get("unexplained", 0) > 0},
        {"title": "lost", "value": f"{classes.get('lost', 0):,}", "bad": classes.get("lost", 0) > 0},
    ]
    if late.get("p99") is not None:
        cards.append({"title": f"lateness p99 (p50: {late['p50']:,} ms)", "value": f"{late['p99']:,} ms", "bad": False})
    return cards


def _changes(document: Document) -> list[dict[str, Any]]:
    """Every change of terms with the gap of hand-overs at it, in order: those between terms on record, and those that
    only duplicates tell of."""
    terms = list(document.get("terms", ()))
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for before, after in itertools.pairwise(terms):
        found[before["term"], after["term"]] = {"at_ms": after["begun_ms"], "duplicates": 0, "span_ms": 0}
    for change in document.get("term_changes", ()):
        found.setdefault((change["from_term"], change["to_term"]), {"at_ms": 0}).update(change)
    led = {term["term"]: term for term in terms}
    around = {each["term"]: each for each in document.get("figures", {}).get("around", ())}
    rows = []
    for (before_term, after_term), change in sorted(found.items()):
        gap_ms = around.get(after_term, {}).get("gap_ms")
        at_ms = change["at_ms"] or led.get(after_term, {}).get("begun_ms", 0)
        rows.append(
            {
                **change,
                "from_term": before_term,
                "to_term": after_term,
                "node_from": led.get(before_term, {}).get("node") or "?",
                "node_to": led.get(after_term, {}).get("node") or "?",
                "at_ms": at_ms,
                "at": _moment(at_ms) if at_ms else "",
                "gap": "" if gap_ms is None else f"{gap_ms:,} ms",
                "wide": change["duplicates"] > 0 and change["span_ms"] > SPAN_MAX_MS,
            }
        )
    return rows


def _drawn(document: Document, changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is drawn of the changes: those with the most duplicates, in order of terms."""
    by_term = {change["to_term"]: change for change in changes}
    found = []
    for each in document.get("figures", {}).get("around", ()):
        change = by_term.get(each["term"], {})
        more = {"from_term": change.get("from_term", each["term"] - 1), "span_ms": change.get("span_ms", 0)}
        found.append({**each, **more})
    found = sorted(found, key=lambda each: -each["failover"])[:CHANGES_DRAWN]
    return sorted(found, key=lambda each: each["term"])


def _repairs_said(document: Document) -> str:
    """What becomes of the repairs, and why nothing is sent again where the data is not whole."""
    said = "What 'hourwheel reconcile apply' would do, each exactly once however often it is run."
    refused = document.get(REDELIVER_REFUSED) or ()
    return f"{said} It sends nothing again: {'; '.join(refused)}." if refused else said


def _tables(document: Document) -> list[dict[str, Any]]:
    """The parts that are plain tables: topics, receipts, what was acknowledged, repairs."""
    tables = []
    topics = document.get("topics", ())
    if topics:
        heads = list(dict.fromkeys(name for topic in topics for name in topic))
        rows = [[topic.get(head, "") for head in heads] for topic in topics]
        tables.append(
            _table("topics", "Topics", "Their messages in this window.", [_head(name) for name in heads], rows)
        )
    for name, title, sentence in (
        ("receipts", "Consumers' receipts", "What consumers say they got, beside what the nodes say they handed over."),
        ("acknowledged", "Acknowledged to producers", "Ids that producers were given, looked up in the nodes' hours."),
        ("repairs", "Repairs", _repairs_said(document)),
    ):
        part = dict(document.get(name, {}))
        counts = [
            [_head(key), count] for key, count in part.items() if isinstance(count, int) and not key.endswith("_ms")
        ]
        if any(count for _, count in counts):
            tables.append(_table(name, title, sentence, ["", "count"], counts))
    unjudged = [[said, count] for said, count in _unjudged(document) if count]
    if unjudged:
        said = "Read, counted, and in none of the figures above."
        tables.append(_table("unjudged", "Records that were not judged", said, ["", "count"], unjudged))
    return tables


def _unjudged(document: Document) -> list[tuple[str, int]]:
    rows = document.get("unreadable", {})
    return [
        ("hand-overs and ends after the records' end: the next run has them", document.get("beyond", 0)),
        ("records that name no message of these hours", document.get("foreign", 0)),
        ("messages that are whole in no copy", rows.get("units", 0)),
        ("settle records that are whole in no copy", rows.get("settles", 0)),
        ("record headers that are whole in no copy: their ids are not known in full", rows.get("headers", 0)),
    ]


def _table(name: str, title: str, sentence: str, heads: list[str], rows: list[list[Any]]) -> dict[str, Any]:
    rows = [[("yes" if cell else "no") if isinstance(cell, bool) else cell for cell in row] for row in rows]
    return {"name": name, "title": title, "sentence": sentence, "heads": heads, "rows": rows}


def _head(name: str) -> str:
    return name.replace("_ms", ", ms").replace("_", " ")


def _pictures(document: Document, changes: list[dict[str, Any]], drawn: list[dict[str, Any]]) -> dict[str, Any]:
    """SVG by name, None for what there is nothing to draw of."""
    figures = document.get("figures")
    found: dict[str, Any] = dict.fromkeys(("lateness", "over_time", "around", "covered"))
    with style():
        if figures and figures["handed_over"]:
            late = ", ".join(f"{name} {value} ms" for name, value in figures["lateness_ms"].items())
            said = f"Histogram of the lateness of {figures['handed_over']:,} first hand-overs: {late}"
            found["lateness"] = inline(pictures.lateness(figures), "late", said)
            said = "Hand-overs a second, lateness and duplicates over time"
            found["over_time"] = inline(pictures.over_time(figures, changes), "time", said)
        if drawn:
            said = "; ".join(
                f"term {each['from_term']} to {each['term']}: {each['failover']} failover duplicates within "
                f"{each['span_ms']} ms, {each['gap_ms']} ms without a hand-over"
                for each in drawn
            )
            found["around"] = inline(pictures.around(drawn), "around", said)
        span_ms = _span_ms(document)
        if document.get("nodes") and span_ms[0] < span_ms[1]:
            picture = pictures.covered(document["nodes"], document.get("terms", ()), span_ms)
            said = "When each node's account is given, and which terms it led"
            found["covered"] = inline(picture, "covered", said)
    return found


def _span_ms(document: Document) -> tuple[int, int]:
    """The time worth showing: from the first record or term to where the records end."""
    begins = [
        begin for node in document.get("nodes", ()) for begin, _ in (*node.get("covered", ()), *node.get("gaps", ()))
    ]
    begins += [term["begun_ms"] for term in document.get("terms", ()) if term["begun_ms"]]
    over_time = document.get("figures", {}).get("over_time")
    if over_time and over_time["handed_over"]:
        begins.append(over_time["from_ms"])
    window = document["window"]
    low = min((begin for begin in begins if begin > 0), default=window["until_ms"])
    return max(low, window["from_ms"]), window["until_ms"]
