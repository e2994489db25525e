"""The head of one attempt's request.

Headers come from four places. A later place wins over an earlier one with a header of the same name:

    User-Agent, Content-Type as the message has it  <  target's headers  <  message's headers  <  webhook-*, Hourwheel-*

Lines that are the same for all messages of a target are rendered once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from api.port.timestamp import render_time
from node.port.push_port import TOKEN, PushTarget, PushWork, chosen_headers
from node.push_wire.signature import sign

KEPT_MAX: Final = 4096
"""Targets whose header lines are kept. If more are in use, some lines are rendered anew."""

JSON: Final = "application/json"
AGENT: Final = "hourwheel"

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_END: Final = "\r\n"
_TAG_SAFE: Final = "!#$&'()*+-./:;<=>?@[]^_`{|}~ "


def make_head(work: PushWork) -> bytes:
    """Render the head with its empty line. Raises ValueError if a header cannot be sent."""
    target, now_s = work.target, work.handed_over_ms // 1000
    if work.headers:
        theirs = chosen_headers(work.headers)
        lines = _render({"content-type": work.content_type or JSON, **target.headers, **theirs})
    else:
        lines = _lines_of(target, work.content_type)
    signature = ""
    if target.key is not None:
        signature = f"webhook-signature: {sign(target.key, work.id, now_s, work.body)}\r\n"
    tags = ",".join([quote(tag, safe=_TAG_SAFE) for tag in work.tags]) if work.tags else ""
    ours = (
        f"webhook-id: {work.id}\r\nwebhook-timestamp: {now_s}\r\n{signature}Hourwheel-Topic: {work.topic}\r\n"
        f"{f'Hourwheel-Tags: {tags}{_END}' if tags else ''}Hourwheel-Due: {render_time(work.asked_due_ms)}\r\n"
        f"Hourwheel-Attempt: {work.attempt}\r\nHourwheel-Term: {work.term}\r\nContent-Length: {len(work.body)}\r\n\r\n"
    )
    return b"".join((target.start, lines, ours.encode()))


@lru_cache(maxsize=KEPT_MAX)
def _lines_of(target: PushTarget, content_type: str) -> bytes:
    """Return the header lines for messages without headers of their own."""
    return _render({"content-type": content_type or JSON, **target.headers})


def _render(headers: Mapping[str, str]) -> bytes:
    """Render header lines. Raises ValueError for a name or a value that cannot be sent: a line break would forge
    headers."""
    lines: list[str] = []
    for name, value in {"user-agent": AGENT, "accept": "*/*", **headers}.items():
        if not TOKEN.fullmatch(name) or _CONTROLS.search(value):
            raise ValueError(f"the header {name[:200]!r} cannot be sent")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode()
