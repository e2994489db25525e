"""Print the tables of docs/http: the routes of each page, their fields and errors, from the rows of the contract.

PYTHONPATH=. python deploy/http_pages.py          rewrite the pages
PYTHONPATH=. python deploy/http_pages.py --check  fail if a page is not as it would be written

Marks in a page say what stands where. The printed part ends at the next `<!-- end -->`:

- `<!-- routes -->` the routes whose operations the page shows
- `<!-- all-routes -->` the routes of all pages
- `<!-- operation NAME -->` the parameters, fields, answers and errors of one operation
- `<!-- shape NAME -->` the fields of one object
- `<!-- errors -->` all codes
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from api.contract.errors import ADVICE, ALWAYS, WITH_BODY, listed, refusals
from api.contract.openapi import document
from api.http.route import Route
from api.port.problem import RETRY_AFTER_S, TABLE
from api.serve import ROUTES

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "http"

MARKED: Final = re.compile(r"<!-- (routes|all-routes|errors|operation \w+|shape \w+) -->\n.*?<!-- end -->\n", re.DOTALL)
_REF: Final = "#/components/schemas/"
#: The columns of a table of fields, the most words that a bound names one by one, and the columns that every table has.
_COLUMNS: Final = ("field", "type", "bound", "default", "meaning")
_WORDS_MAX: Final = 12
_ALWAYS_SHOWN: Final = ("field", "type", "meaning")


class BadPage(ValueError):
    """A mark that names nothing, or a part of the contract that stands on no page or on two."""


class Printer:
    """Prints the parts that the marks of pages ask for. `pages` has the text of each page, by its name."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        self._pages = pages
        self._routes = {route.says.name: route for route in ROUTES if route.says is not None}
        self._document = document(ROUTES, "")
        #: Each operation and shape -> the page that it stands on.
        self._places: dict[str, str] = {}
        for page, text in pages.items():
            for mark in MARKED.findall(text):
                kind, _, name = mark.partition(" ")
                if name and self._places.setdefault(name, page) != page:
                    raise BadPage(f"{kind} {name} stands on {self._places[name]} and on {page}")

    def missing(self) -> list[str]:
        """The operations that stand on no page."""
        return [name for name in self._routes if name not in self._places]

    def page(self, name: str) -> str:
        """Return the text of a page with all its marked parts printed anew."""

        def replaced(found: re.Match[str]) -> str:
            text = self._part(name, found[1])
            return f"<!-- {found[1]} -->\n\n{text.rstrip()}\n\n<!-- end -->\n"

        return MARKED.sub(replaced, self._pages[name])

    def _part(self, page: str, mark: str) -> str:
        kind, _, name = mark.partition(" ")
        if kind == "routes":
            return self._route_table([each for each, place in self._places.items() if place == page])
        if kind == "all-routes":
            return self._all_routes()
        if kind == "errors":
            return error_table()
        if kind == "shape":
            if name not in self._schemas:
                raise BadPage(f"{page} shows the shape {name}, which the contract does not have")
            return self._fields(page, name)
        if name not in self._routes:
            raise BadPage(f"{page} shows the operation {name}, which the contract does not have")
        return self._operation(page, self._routes[name])

    @property
    def _schemas(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._document["components"]["schemas"]
        return found

    def _route_table(self, names: Sequence[str]) -> str:
        routes = [self._routes[name] for name in names if name in self._routes]
        rows = [[f"`{route.method} {route.pattern}`", _summary(route), _answers(route)] for route in routes]
        return table(("route", "what it does", "who answers"), rows)

    def _all_routes(self) -> str:
        rows = [
            [f"`{route.method} {route.pattern}`", _summary(route), f"[{self._places[name]}]({self._places[name]})"]
            for name, route in self._routes.items()
            if name in self._places
        ]
        return table(("route", "what it does", "page"), rows)

    def _operation(self, page: str, route: Route) -> str:
        said = self._document["paths"][route.pattern][route.method.lower()]
        parts = [f"**`{route.method} {route.pattern}`**"]
        parameters = said.get("parameters", [])
        if parameters:
            parts.append(table(("parameter", *_COLUMNS[1:]), [self._parameter(page, each) for each in parameters]))
        request = said.get("requestBody")
        if request:
            (_, content), *_ = request["content"].items()
            optional = "" if request["required"] else " The body may be left out."
            parts.append(f"Takes {' or '.join(f'`{media}`' for media in request['content'])}.{optional}")
            parts.append(self._body(page, content["schema"]))
        assert route.says is not None
        rows = []
        for status, answered in route.says.answers.items():
            ((media, content),) = said["responses"][str(status)]["content"].items()
            headers = " ".join(f"`{header}`: {words}" for header, words in answered.headers.items())
            rows.append([f"`{status}`", f"`{media}`", self._link(page, content["schema"]), headers, answered.said])
        parts.append(table(("status", "type", "answer", "headers", "meaning"), rows, ("status",)))
        for name in dict.fromkeys(self._own_shapes(page, said)):
            parts.append(f"Fields of `{name}`:")
            parts.append(self._fields(page, name))
        codes = [code for each in refusals(route, route.says).values() for code in each if code not in ALWAYS]
        if codes:
            parts.append(f"Errors: {listed(codes)}.")
        return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"

    def _body(self, page: str, schema: Mapping[str, Any]) -> str:
        name = schema["$ref"].removeprefix(_REF)
        if name in self._places:
            return f"Its fields are those of {self._link(page, schema)}."
        return self._fields(page, name)

    def _own_shapes(self, page: str, said: Mapping[str, Any]) -> Iterator[str]:
        """Yield the shapes of an operation's answers that no mark shows, so that they are listed below the
        operation."""
        for status, answered in said["responses"].items():
            for content in answered.get("content", {}).values():
                name = content["schema"].get("$ref", "").removeprefix(_REF)
                if name and name not in self._places and int(status) < 400:
                    yield name

    def _parameter(self, page: str, said: Mapping[str, Any]) -> list[str]:
        kind = {"query": "", "path": " of the path", "header": " (header)"}[said["in"]]
        schema = {**said["schema"], "description": said["description"]}
        return [f"`{said['name']}`{kind}", *self._cells(page, schema, required=said["in"] == "path")]

    def _fields(self, page: str, name: str) -> str:
        schema = self._schemas[name]
        rows = list(self._rows(page, schema, "", sent=schema.get("additionalProperties") is False))
        if not rows:
            raise BadPage(f"{page} shows {name}, which has no fields")
        return table(_COLUMNS, rows, _ALWAYS_SHOWN)

    def _rows(self, page: str, schema: Mapping[str, Any], before: str, *, sent: bool) -> Iterator[list[str]]:
        """Yield a row for each field. The fields of an object inside a field follow it, with a dot between both names.
        `sent`: clients send these fields."""
        required = schema.get("required", ())
        for name, value in schema["properties"].items():
            cells = self._cells(page, value, required=sent and name in required)
            if not sent and name not in required:
                cells[-1] += " May be missing."
            yield [f"`{before}{name}`", *cells]
            inner, mark = self._inner(value)
            if inner is not None:
                yield from self._rows(page, inner, f"{before}{name}{mark}.", sent=sent)

    def _inner(self, value: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
        """Return the object inside a field, whose fields follow it, and `[]` if the field is an array of such objects.
        None if there is no object, or its shape has a place of its own."""
        mark = ""
        value = _without_null(value)
        if value.get("type") == "array" or "array" in value.get("type", ()):
            value, mark = _without_null(value["items"]), "[]"
        if "$ref" in value:
            name = value["$ref"].removeprefix(_REF)
            value = {} if name in self._places else self._schemas[name]
        fields = value.get("properties", {})
        return (value if fields and not _plain_counts(value) else None), mark

    def _cells(self, page: str, value: Mapping[str, Any], *, required: bool) -> list[str]:
        """Return the cells of a field: type, bound, default and meaning."""
        meaning = value.get("description", "")
        if "$ref" in value and not meaning:
            meaning = self._schemas[value["$ref"].removeprefix(_REF)].get("description", "")
        if not meaning:
            raise BadPage(f"{page}: a field does not say what it means: {value}")
        default = "required" if required else _shown(value["default"]) if "default" in value else ""
        return [self._type(page, value), self._bound(value), default, meaning]

    def _type(self, page: str, value: Mapping[str, Any]) -> str:
        kinds = value.get("type", ())
        kinds = [kinds] if isinstance(kinds, str) else list(kinds)
        null = " or null" if "null" in kinds else ""
        if "anyOf" in value:
            return f"{self._type(page, _without_null(value))} or null"
        if "$ref" in value:
            return self._link(page, value) if value["$ref"].removeprefix(_REF) in self._places else "object"
        if value.get("format") == "date-time":
            return f"time{null}"
        if "ms|s|m|h|d" in value.get("pattern", ""):
            return f"duration{null}"
        if "array" in kinds:
            alone = "text or " if "string" in kinds else ""
            return f"{alone}list of {self._type(page, value['items'])}{null}"
        words = {"string": "text", "integer": "number", "number": "number", "boolean": "boolean", "object": "object"}
        return (" or ".join(words[kind] for kind in kinds if kind != "null") or "any JSON") + null

    def _bound(self, value: Mapping[str, Any]) -> str:
        value = _without_null(value)
        if "$ref" in value:
            value = self._schemas[value["$ref"].removeprefix(_REF)]
            return ", ".join(f"`{name}`" for name in value["properties"]) if _plain_counts(value) else ""
        if "x-bound" in value:
            return str(value["x-bound"])
        if "enum" in value:
            words = value["enum"]
            return ", ".join(f"`{word}`" for word in words) if len(words) <= _WORDS_MAX else f"one of {len(words)}"
        if "maxItems" in value:
            inner = self._bound(value["items"])
            return f"{_span(value, 'minItems', 'maxItems')}" + (f", each {inner}" if inner else "")
        if "maxProperties" in value:
            return f"at most {value['maxProperties']:,}"
        if "maximum" in value:
            return _span(value, "minimum", "maximum")
        if "maxLength" in value and "contentEncoding" not in value:
            return f"{_span(value, 'minLength', 'maxLength')} characters"
        return ""

    def _link(self, page: str, schema: Mapping[str, Any]) -> str:
        """Return the name of a shape, as a link to the place where its fields are listed."""
        name = schema.get("$ref", "").removeprefix(_REF)
        if not name:
            return "text"
        place = self._places.get(name)
        if place is None:
            return f"`{name}`"
        return f"[`{name}`]({'' if place == page else place}#{name.lower()})"


def error_table() -> str:
    """Return the text about errors with a table of every code, and what a client does about it."""
    rows = []
    for code, (status, title) in TABLE.items():
        after = f"{RETRY_AFTER_S[code]} s" if code in RETRY_AFTER_S else ""
        rows.append([f"`{code}`", str(status), after, f"{title}.", ADVICE[code]])
    told = (
        f"Every route may answer {listed(ALWAYS)}.",
        f"A route that takes a body may also answer {listed(WITH_BODY)}.",
        "The page of a route names the others.",
    )
    return "\n".join(told) + "\n\n" + table(("code", "status", "`Retry-After`", "it means", "what to do"), rows, ())


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], first: Sequence[str] = ()) -> str:
    """A table. Columns that are empty in all rows are left out, unless `first` names them."""
    shown = [at for at, head in enumerate(heads) if head in first or any(row[at] for row in rows)]
    lines = [[heads[at] for at in shown], *([row[at].replace("|", "\\|") for at in shown] for row in rows)]
    head, *rest = (f"| {' | '.join(line)} |\n" for line in lines)
    return "".join((head, "|---" * len(shown), "|\n", *rest))


def _summary(route: Route) -> str:
    assert route.says is not None
    return route.says.summary


def _answers(route: Route) -> str:
    if route.leader:
        return "the leader"
    return "the node asked, also while it drains" if route.health else "the node asked"


def _without_null(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema without its alternative null."""
    found: Mapping[str, Any] = value["anyOf"][0] if "anyOf" in value else value
    return found


def _plain_counts(value: Mapping[str, Any]) -> bool:
    """True if the fields of an object need no description beside their names. Then one row lists them all."""
    return not any("description" in each or "$ref" in each for each in value.get("properties", {}).values())


def _span(value: Mapping[str, Any], low: str, high: str) -> str:
    least = value.get(low, 0)
    return f"{least:,} to {value[high]:,}" if least else f"at most {value[high]:,}"


def _shown(value: Any) -> str:
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def pages() -> dict[str, str]:
    """The pages of the folder, by name with their text."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}


def main() -> int:
    """Rewrite the pages, or compare them if `--check` is given. Return the exit status."""
    found = pages()
    printer = Printer(found)
    wanted = {name: printer.page(name) for name in found}
    if "--check" in sys.argv[1:]:
        return int(found != wanted)
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
