"""A batch in msgpack: an array of the objects that NDJSON has one on each line.

Each element becomes the text of its line, so both forms have the same fields, limits and errors. A `body` of the type
bin is taken as bytes, which is `body_base64` in JSON. A timestamp of msgpack is taken where a text with a time is. An
element is decoded only after a scan has found its end. So no length that an element claims is more than its bytes.
"""

import json
from base64 import b64encode
from datetime import datetime
from typing import Any, Final

import msgpack
import msgspec

from api.port.loop_turn import Pieces
from api.port.port import Limits
from api.port.problem import FieldFault, Problem
from api.port.traceback import let_go
from api.read.batch import PIECE_BYTES, BatchIn, BatchReader
from api.read.nesting import too_deep

MSGPACK: Final = "application/msgpack"
_NO_JSON: Final = (TypeError, ValueError)


def read_array_batch(data: bytes, now_ms: int, limits: Limits) -> Pieces[BatchIn]:
    """Read all elements of a batch, a piece at a time. Raises what `api.read.batch.read_batch` raises, and
    `malformed-request` if the bytes are no array of msgpack."""
    scan = msgpack.Unpacker(max_buffer_size=max(1, len(data)))
    scan.feed(data)
    try:
        count = scan.read_array_header()
    except (ValueError, msgpack.OutOfData):
        raise Problem("malformed-request", "the body is no msgpack array; send an array of messages") from None
    if count > limits.batch_lines_max:
        raise Problem("too-large", f"a batch is at most {limits.batch_lines_max} lines, got {count}; send several")
    if not count:
        fault = FieldFault("", "no elements")
        raise Problem("invalid-field", "the batch has no elements; send one map per message", errors=[fault])
    reader = BatchReader(now_ms, limits)
    lines: list[bytes] = []
    size = 0
    for number in range(1, count + 1):
        start, end = scan.tell(), _end_of(scan, number)
        try:
            lines.append(_line(data[start:end], limits.request_bytes_max))
        except Problem as problem:
            let_go(problem)
            yield from reader.read_lines(lines)
            reader.refuse(problem)
            lines = []
        size += end - start
        if size >= PIECE_BYTES:
            yield from reader.read_lines(lines)
            lines, size = [], 0
            yield
    if scan.tell() < len(data):
        raise Problem(
            "malformed-request", f"{len(data) - scan.tell()} bytes stand behind the array of {count} elements"
        )
    yield from reader.read_lines(lines)
    return reader.found()


def _end_of(scan: msgpack.Unpacker, number: int) -> int:
    """Skip an element. Return the place behind it."""
    try:
        scan.skip()
    except msgpack.OutOfData:
        raise Problem("malformed-request", f"the array ends in the middle of element {number}") from None
    except msgpack.StackError:
        raise Problem("malformed-request", f"element {number} is nested too deeply") from None
    except ValueError:
        raise Problem("malformed-request", f"element {number} is no msgpack") from None
    return int(scan.tell())


def _line(data: bytes, most: int) -> bytes:
    """The text of an element. Raises its refusal."""
    if len(data) > most:
        raise Problem("too-large", f"an element holds at most {most} bytes, got {len(data)}")
    try:
        value = msgspec.msgpack.decode(data)
    except RecursionError:
        raise too_deep() from None
    except (msgspec.DecodeError, ValueError) as error:
        raise Problem("malformed-line", f"the element cannot be read: {error}") from None
    if isinstance(value, dict) and isinstance(value.get("body"), bytes):
        given = value["body"]
        value["body"] = None
        if "body_base64" not in value:  # else the line has both, and is refused for that
            del value["body"]
            value["body_base64"] = b64encode(given).decode()
    try:
        return _text(value)
    except RecursionError:
        raise too_deep() from None
    except _NO_JSON as error:
        raise _no_json(value, error) from None


def _text(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_of_extension)
    return text.encode()


def _of_extension(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    raise TypeError(f"a value of the type {'bin' if isinstance(value, bytes) else 'ext'}")


def _no_json(value: Any, error: Exception) -> Problem:
    """The refusal of an element that JSON cannot hold. It names the field."""
    if not isinstance(value, dict):
        return Problem("malformed-line", f"{error}; an element is a map with the fields of a message")
    for name, field in value.items():
        try:
            _text({name: field})
        except _NO_JSON as fault:
            detail = f"{fault}; all but `body` is what JSON can hold, and `body` may be bin"
            return Problem("invalid-field", detail, errors=[FieldFault(f"/{name}", detail)])
    raise AssertionError("one field of it cannot be written")
