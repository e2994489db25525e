"""Checks the parameters that choose messages: a range of due times, a tag, a page. They come in a query or a body.

The readers of single values raise a `Fault`, which the caller turns into a problem with the value's place.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from api.contract.checker import Fault, read_tags, wrong_type
from api.http.exchange import Exchange
from api.port.problem import FieldFault, Problem
from api.port.timestamp import BadTime, parse_time, render_time

#: Entries of a page, by default and at most.
PAGE: Final = 100
PAGE_MAX: Final = 1_000

CURSOR_CHARACTERS_MAX: Final = 1_024

_CURSOR = re.compile(rf"[\x21-\x7e]{{1,{CURSOR_CHARACTERS_MAX}}}", re.ASCII)

WHOLE: Final = re.compile(r"[0-9]{1,18}", re.ASCII)


def read_time(value: object) -> int:
    """Return a time, sent as RFC 3339 or milliseconds, in milliseconds since 1970."""
    try:
        return parse_time(value)
    except BadTime as error:
        raise Fault("invalid-field", str(error)) from None


def read_tag(value: object) -> str:
    """Return one tag, checked as the tags of a message are."""
    if type(value) is not str:
        raise wrong_type("a string", value)
    try:
        return read_tags([value])[0]
    except Fault as fault:
        raise Fault(fault.code, fault.detail) from None


def query_time(text: str) -> int:
    """Return a time from a query in ms. Digits alone are milliseconds."""
    if " " in text:
        raise Fault("invalid-field", f'"{text[:40]}" holds a space: a + in a query stands for one; write %2B, or Z')
    return read_time(int(text) if WHOLE.fullmatch(text) else text)


def query_limit(text: str) -> int:
    """Return the greatest number of entries of a page, from 1 to PAGE_MAX."""
    if not WHOLE.fullmatch(text) or not 1 <= int(text) <= PAGE_MAX:
        raise Fault("invalid-field", f'a page holds 1 to {PAGE_MAX}, got "{text[:20]}"')
    return int(text)


def query_cursor(text: str) -> str:
    """Return a cursor. The node decides if it is one of this list."""
    if not _CURSOR.fullmatch(text):
        raise Fault("invalid-field", "a cursor is the next_cursor of the page before, as it came")
    return text


def read_query(
    exchange: Exchange, checkers: Mapping[str, Callable[[str], Any]], planned: Collection[str] = ()
) -> dict[str, Any]:
    """Return the query's values, each checked and converted by the function under its name in `checkers`. `planned` are
    the names that a later version will take. Raises a `Problem` that names every parameter at fault."""
    values: dict[str, Any] = {}
    faults: list[tuple[str, FieldFault]] = []
    for name, text in exchange.query(checkers, planned).items():
        try:
            values[name] = checkers[name](text)
        except Fault as fault:
            faults.append((fault.code, FieldFault("", fault.detail, parameter=name)))
    if faults:
        code, first = min(faults, key=lambda each: each[0])  # `invalid-field` stays before `not-supported-yet`
        more = f" (and {len(faults) - 1} more, see errors)" if len(faults) > 1 else ""
        raise Problem(code, f"{first.parameter}: {first.detail}{more}", errors=[fault for _, fault in faults])
    return values


def check_window(values: Mapping[str, Any], pointer: str = "") -> None:
    """Raise `invalid-field` if `from` is after `to`. `pointer` is the place of `from` in the body, if it is there."""
    from_ms, to_ms = values.get("from"), values.get("to")
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        detail = f"from is not after to, got {render_time(from_ms)} and {render_time(to_ms)}"
        raise Problem(
            "invalid-field", detail, errors=[FieldFault(pointer, detail, parameter="" if pointer else "from")]
        )
