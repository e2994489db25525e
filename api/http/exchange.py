"""One request and its answer, as the handler of its route sees them.

The exchange reads the body within the route's limit and the time allowed, and checks its media type. It makes answers
that carry the headers of the contract. Every request makes an exchange, so it holds plain attributes and does nothing
before it is asked to.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import parse_qsl

import msgspec
from aiohttp import hdrs, web

from api.http.answer import JSON, Answer
from api.http.watch import has_shut
from api.port.budget import UNCOUNTED_BYTES
from api.port.forward import ANSWERED, Answered, RequestKey
from api.port.leadership import FORWARDED
from api.port.loop_turn import Line, LoopTurn
from api.port.port import KeyedPort, Port, Principal
from api.port.problem import FieldFault, Problem, draining
from api.port.traceback import let_go
from api.read.compression import ENCODINGS, TooLarge, accepted, compressed, decompressed
from api.read.idempotency import HEADER, read_request_key

if TYPE_CHECKING:
    from api.http.connection import Connection

#: A longer body is compressed, and decompressed, in a thread.
PLAIN_BYTES: Final = 64 * 1024
#: An answer that is shorter than this is never compressed.
COMPRESSED_FROM_BYTES: Final = 1_024
#: A body has to be complete this long after its header.
BODY_MAX_S: Final = 30.0


class Serving(Protocol):
    """The server (server.py), as an exchange and its handler see it."""

    port: Port
    draining: bool

    def stamp(self, answered: Answered | None) -> str:
        """Return the header lines of date, node and term. `answered` is the node that answered, if it is another
        one."""

    def date(self) -> str:
        """Return the line of the Date header."""

    def keeps(self, exchange: "Exchange") -> bool:
        """True if the connection stays open after this answer."""

    async def pass_on(self, exchange: "Exchange") -> Answer:
        """Pass the request to the leader as it came, and return its answer."""

    def end_waits(self, node_id: str, number: int | None = None) -> int:
        """End the waits that the node `node_id` passed on to this one, or only the one that it gave this number. Return
        how many."""


class Exchange:
    """A request on its way through a handler. `params` are the path's parameters, decoded; `principal` is the caller.

    The server makes one for each request, and calls `release` once the answer is made.
    """

    __slots__ = (
        *("_data", "_held", "answered", "bytes_max", "connection", "line", "once", "params", "passed_on"),
        *("port", "principal", "request", "request_id", "request_key", "server", "target"),
    )

    def __init__(self, server: Serving, request: web.BaseRequest, request_id: str, principal: Principal) -> None:
        self.server = server
        self.port: Port = server.port
        self.request = request
        self.connection = cast("Connection", request.protocol)
        self.request_id = request_id
        self.principal = principal
        self.target = request.raw_path
        self.params: Mapping[str, str] = {}
        self.bytes_max = self.port.limits.request_bytes_max
        self.once = False  # it waits for nothing, even if its body asks for a wait
        self.passed_on = False  # to the leader, which may have carried it out
        self.answered: Answered | None = None  # the other node that answered; None: this node answers
        self.request_key: RequestKey | None = None  # of its Idempotency-Key, once it was read
        self._data: bytes | None = None  # the body, once it was read
        self._held = 0  # bytes of the node's budget
        self.line: Line | None = None  # the line in which requests of its kind begin

    async def go_on(self) -> None:
        """Wait for a turn of the loop in which this request may go on. Call it after an event that hundreds of requests
        may have waited for."""
        if self.line is not None:
            await self.line.turn()

    def asks_elsewhere(self) -> None:
        """Note that another node leads, and that the port will ask that node. The answer then names that node."""
        self.answered = Answered()
        ANSWERED.set(self.answered)

    # The request

    def query(self, known: Collection[str], planned: Collection[str] = ()) -> dict[str, str]:
        """Return the query's parameters by name. `known` are the names that the route takes, `planned` those that a
        later version will take. Any other name is refused like an unknown field."""
        _, _, text = self.target.partition("?")
        if not text:
            return {}
        try:
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=32, errors="strict")
        except ValueError as error:
            detail = f"the query cannot be read: {error}; it has 32 parameters at most, in UTF-8"
            raise Problem("invalid-field", detail, errors=[FieldFault("", detail)]) from None
        values: dict[str, str] = {}
        for name, value in pairs:
            code, detail = "invalid-field", f'"{name[:40]}" stands in the query twice; send it once'
            if name in planned:
                code, detail = (
                    "not-supported-yet",
                    f"{name} is of the contract but not supported yet; leave it out",
                )
            elif name not in known:
                hint = f"known: {', '.join(known) or 'none'}"
                code, detail = "unknown-field", f'"{name[:40]}" is not a parameter here; {hint}'
            elif name not in values:
                values[name] = value
                continue
            raise Problem(code, detail, errors=[FieldFault("", detail, parameter=name[:40])])
        return values

    def if_match(self) -> int | None:
        """Return the revision of If-Match. None without the header or with `*`."""
        text = self.request.headers.get("If-Match")
        if text is None or text.strip() == "*":
            return None
        digits = text.strip().removeprefix("W/").strip('"')
        if digits.isascii() and digits.isdigit() and len(digits) <= 15:
            return int(digits)
        detail = 'If-Match holds a revision as its ETag gave it, such as "3"'
        raise Problem("invalid-field", detail, errors=[FieldFault("", detail, header="If-Match")])

    def has_key(self) -> bool:
        """True if the request has an `Idempotency-Key`."""
        return HEADER in self.request.headers

    def keyed(self, body: bytes = b"") -> KeyedPort:
        """Return the port that carries out the request, under its `Idempotency-Key` if it has one. `body` is the body
        as it was read. Raises `invalid-field`."""
        sent = self.request.headers.getall(HEADER, ())
        if not sent:
            return self.port
        facts = (self.request.method, self.target, self.request.headers.get("If-Match", ""))
        self.request_key = read_request_key(sent, *facts, body=body)
        return self.port.keyed(self.request_key)

    def require_type(self, accepted: Sequence[str]) -> str:
        """Refuse a body of another media type. Return its type. Without a Content-Type it is the first of
        `accepted`."""
        sent: str | None = self.request.headers.get(hdrs.CONTENT_TYPE)
        if sent is None:
            return accepted[0]
        media = sent if sent in accepted else sent.partition(";")[0].strip().lower()
        if media not in accepted:
            detail = f'"{sent[:60]}" is not taken here; send Content-Type: {" or ".join(accepted)}'
            raise Problem("unsupported-media-type", detail)
        return media

    async def read(self) -> bytes:
        """Return the whole body. Raises what `read_as_sent` raises, and 415 if it has a Content-Encoding."""
        if (encoding := self._encoding()) is not None:
            detail = f'Content-Encoding "{encoding[:40]}" is not taken here; send the body plain'
            raise Problem("unsupported-media-type", detail)
        return await self.read_as_sent()

    async def read_decompressed(self) -> bytes:
        """Return the whole body, decompressed if it has a Content-Encoding of ENCODINGS. Raises what `read_as_sent`
        raises, `malformed-request` if it cannot be decompressed, and 415 for another encoding. Bodies that are longer
        than PLAIN_BYTES are decompressed in a thread, one after the other: nobody knows yet how long each will be."""
        encoding = self._encoding()
        if encoding is None:
            return await self.read_as_sent()
        if encoding.lower() not in ENCODINGS:
            detail = f'Content-Encoding "{encoding[:40]}" is not taken; send {", ".join(ENCODINGS)} or the body plain'
            raise Problem("unsupported-media-type", detail)
        data, encoding, most = await self.read_as_sent(), encoding.lower(), self.bytes_max
        try:
            if len(data) <= PLAIN_BYTES:
                return decompressed(data, encoding, min(most, PLAIN_BYTES))
        except TooLarge:
            pass  # it may still be allowed
        try:
            async with self.port.budget.parsed(most):
                found = await asyncio.to_thread(decompressed, data, encoding, most)
        except TooLarge:
            detail = f"a request to this route holds at most {most} bytes, this one has more when it is decompressed"
            raise Problem("too-large", f"{detail}; send less at once") from None
        self.hold(len(found))
        return found

    def _encoding(self) -> str | None:
        """The body's Content-Encoding, None if it is plain."""
        if hdrs.CONTENT_ENCODING not in self.request.headers:
            return None
        encoding = self._joined(hdrs.CONTENT_ENCODING)
        return None if encoding.lower() == "identity" else encoding

    def _joined(self, name: str) -> str:
        """The header's lines as one, as HTTP has it, "" if there is none."""
        return ", ".join(self.request.headers.getall(name, ()))

    async def read_as_sent(self) -> bytes:
        """Return the whole body as it came; it is read once and kept. Raises `too-large` over the limit, and
        `request-timeout` if it comes too slowly."""
        if self._data is None:
            self._data = await self._read()
        return self._data

    async def _read(self) -> bytes:
        content = self.request.content
        try:
            if content.is_eof():
                data = content.read_nowait(-1)
                if len(data) > self.bytes_max:
                    raise self._too_large(len(data))
                if len(data) > UNCOUNTED_BYTES:
                    self.hold(len(data))
                return data
            return await self._read_slowly()
        except (ConnectionResetError, RuntimeError) as error:  # RuntimeError, if it was closed before
            if self.gone():
                let_go(error)
                raise asyncio.CancelledError from None
            raise
        except web.RequestPayloadError as error:
            if self.server.draining:
                raise draining() from None
            raise Problem("malformed-request", f"the body is not what the header says: {error}") from None

    async def read_optional(self, accepted: Sequence[str]) -> bytes:
        """Return the body, or `{}` if there is none. The Content-Type is checked only if there is a body, because some
        clients send the header without one."""
        data = await self.read()
        if not data:
            return b"{}"
        self.require_type(accepted)
        return data

    def check_size(self) -> None:
        """Refuse a body whose announced size is too large. This comes before all other checks, on every node alike."""
        content = self.request.content
        announced = content.total_bytes if content.is_eof() else self.request.content_length
        if announced is not None and announced > self.bytes_max:
            raise self._too_large(announced)

    async def _read_slowly(self) -> bytes:
        self.check_size()
        announced = self.request.content_length or 0
        if announced > UNCOUNTED_BYTES:
            self.hold(announced)
        if self.request.headers.get(hdrs.EXPECT, "").lower() == "100-continue" and self.request.transport is not None:
            self.request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        chunks: list[bytes] = []
        size = 0
        turn = LoopTurn()
        try:
            async with asyncio.timeout(BODY_MAX_S):
                while chunk := await self.request.content.readany():
                    chunks.append(chunk)
                    size += len(chunk)
                    if self.request.content.total_bytes > size:
                        await turn.give_way()  # a body in small chunks takes as long as a large batch
                    else:
                        turn.begin_anew()  # it waits for the client, and others have had the loop
                    if size > self.bytes_max:
                        raise self._too_large(size)
                    if size > max(self._held, UNCOUNTED_BYTES):
                        self.hold(size - self._held)
        except TimeoutError:
            raise Problem("request-timeout", f"the body was not complete {BODY_MAX_S:.0f} s after its header") from None
        return b"".join(chunks)

    def _too_large(self, size: int) -> Problem:
        return Problem(
            "too-large", f"a request to this route holds at most {self.bytes_max} bytes, got {size}; send less at once"
        )

    def hold(self, size: int) -> None:
        """Count `size` more bytes in the node's budget, until the request is answered. Raises `busy`."""
        self.port.budget.take(size)
        self._held += size

    def release(self) -> None:
        """Give the bytes that `hold` counted back to the node's budget, once the request is answered."""
        if self._held:
            self.port.budget.give(self._held)
            self._held = 0

    # The answer

    def gone(self) -> bool:
        """True if the client's connection is closed or about to be, or if the client left a request that waits. Nothing
        is delivered to it any more."""
        transport = self.request.transport
        return transport is None or transport.is_closing() or self.connection.has_left()

    def has_shut(self) -> bool:
        """True if the client has closed its side, or the connection."""
        transport = self.request.transport
        if transport is None or self.gone():
            return True
        socket = transport.get_extra_info("socket")
        return socket is not None and has_shut(socket.fileno())

    def answer(
        self, status: int, body: bytes, content_type: str = JSON, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return an answer with the contract's headers."""
        if self.request_key is not None and self.request_key.replayed:
            headers = {**(headers or {}), "Idempotency-Replayed": "true"}
        return self._stamped(self.server.stamp(self.answered), status, body, content_type, headers)

    def relay(self, status: int, body: bytes, content_type: str, headers: Mapping[str, str]) -> Answer:
        """Return another node's answer. `headers` has its Hourwheel-Node and Hourwheel-Term, which replace ours."""
        return self._stamped(self.server.date(), status, body, content_type, headers)

    def _stamped(
        self, stamp: str, status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None
    ) -> Answer:
        return Answer.of(
            status,
            body,
            content_type,
            stamp=f"{stamp}X-Request-Id: {self.request_id}\r\n",
            headers=headers,
            keep_alive=self.server.keeps(self),
            bodyless=self.request.method == "HEAD",
        )

    async def compressed(self, body: bytes, content_type: str = JSON) -> Answer:
        """Return a 200 with this body, compressed if it is long and the client takes it so. A body that is longer than
        PLAIN_BYTES is compressed in a thread. A node that passed the request on gets it plain. It is of an older
        build, which would not tell its client that the body is compressed."""
        if len(body) < COMPRESSED_FROM_BYTES or FORWARDED in self.request.headers:
            return self.answer(200, body, content_type)
        encoding = accepted(self._joined(hdrs.ACCEPT_ENCODING))
        if encoding is None:
            return self.answer(200, body, content_type)
        if len(body) <= PLAIN_BYTES:
            short = compressed(body, encoding)
        else:
            try:
                short = await asyncio.to_thread(compressed, body, encoding)
            except asyncio.CancelledError:
                # A pull's wait is ended, or the node drains. What the body delivers is leased, so it goes out now.
                task = asyncio.current_task()
                assert task is not None, "a request is a task"
                task.uncancel()
                return self.answer(200, body, content_type)
        return self.answer(200, short, content_type, {"Content-Encoding": encoding, "Vary": "Accept-Encoding"})

    def document(self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
        """Return an answer with a JSON document."""
        return self.answer(status, msgspec.json.encode(value), JSON, headers)
