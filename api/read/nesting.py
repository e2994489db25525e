"""The nesting of a JSON document. It is bounded here, because the limit of a decoder depends on the interpreter.

A bracket inside a string does not count. The text without strings becomes a column of steps up and down, so a document
of a megabyte takes milliseconds. Nearly all documents have fewer brackets than allowed levels, and skip this.
"""

from typing import Final

import numpy as np

from api.port.problem import Problem

NESTING_MAX: Final = 256
"""Levels of objects and arrays in a document, the document's own included."""

_STRUCTURE: Final = b'"[]{}'
_OTHERS: Final = bytes(set(range(256)) - set(_STRUCTURE))
_STEP: Final = np.zeros(256, np.int8)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1


def nests_within(data: bytes, levels: int = NESTING_MAX) -> bool:
    """True if JSON text has at most `levels` levels. For text that is no JSON the answer means nothing."""
    if len(data) <= levels or data.count(b"[") + data.count(b"{") <= levels:
        return True
    marks = data.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHERS)
    outside = b"".join(marks.split(b'"')[::2])
    return int(_STEP[np.frombuffer(outside, np.uint8)].cumsum(dtype=np.int32).max(initial=0)) <= levels


def check_nesting(data: bytes) -> None:
    """Refuse text that nests too deeply, with Problem `malformed-json`."""
    if not nests_within(data):
        raise too_deep()


def too_deep() -> Problem:
    """Return the refusal, which names the limit."""
    return Problem("malformed-json", f"nested too deeply; a document has at most {NESTING_MAX} levels")
