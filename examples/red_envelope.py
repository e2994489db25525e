"""A red envelope is a gift of money that several people share. What is left after 24 hours goes back to its sender.

Hourwheel keeps the 24 hours and sends a signed webhook. The bank's own database decides: one transaction looks at what
is left in the envelope, and returns it. So a webhook that comes twice returns it once.

    python -m examples.red_envelope [story | receive | give 5f0c --after 24h | open 5f0c --person ann]
"""

import asyncio
import base64
import json
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence

from examples.connection import OPEN, Connection
from examples.database import transaction
from examples.story import command_line, say, told_to_the_end
from hourwheel.core.errors import HourwheelError
from hourwheel.webhook_receiver import Receiver, Reply, Request
from hourwheel.webhook_signature import PREFIX, check, read_secret

TOPIC = "red-envelopes"
TABLES = (
    "CREATE TABLE IF NOT EXISTS envelopes (id TEXT PRIMARY KEY, sender TEXT, share INTEGER, message TEXT)",
    "CREATE TABLE IF NOT EXISTS moves"
    " (envelope TEXT, person TEXT, kind TEXT, cents INTEGER, PRIMARY KEY (envelope, person, kind))",
)
GIVE = "INSERT OR IGNORE INTO envelopes VALUES (?, ?, ?, ?)"
MOVE = "INSERT OR IGNORE INTO moves VALUES (?, ?, ?, ?)"


class Bank:
    """Envelopes in a database, and a message for each that comes when its time is up."""

    def __init__(self, hourwheel: Connection, path: str) -> None:
        self._hourwheel, self._path, self.webhook_came = hourwheel, path, asyncio.Event()
        self.secret = PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
        with transaction(path) as database:
            for table in TABLES:
                database.execute(table)

    def give(self, envelope: str, sender: str, cents: int, share: int, after: str) -> None:
        """Take money from the sender into an envelope. If it is called again, it stays one envelope with one
        message."""
        # The message comes first: an envelope without one would keep the money. A message without an envelope comes
        # again for some hours, and becomes a dead letter.
        message = self._hourwheel.schedule(TOPIC, {"envelope": envelope}, after, key=f"envelope-{envelope}")
        with transaction(self._path) as database:
            row = (envelope, sender, share, message["id"])
            if message["state"] in OPEN and database.execute(GIVE, row).rowcount == 1:
                database.execute(MOVE, (envelope, sender, "given", -cents))
            left = _read(database, envelope)[3]
        say(f"{sender}'s envelope {envelope} has {left} cents; what is left goes back at {message['due'][11:]}")

    def open(self, envelope: str, person: str) -> None:
        """Move a share to a person, once. When nothing is left, cancel the message, because its webhook would find
        nothing to give back."""
        with transaction(self._path) as database:
            _, share, message, left = _read(database, envelope)
            cents = min(share, left)
            opened = cents > 0 and database.execute(MOVE, (envelope, person, "opened", cents)).rowcount == 1
        say(f"{person} opens envelope {envelope} and gets {cents if opened else 0} of {left} cents")
        if opened and cents == left:
            try:
                self._hourwheel.send("DELETE", f"/v1/messages/{message}", keyed=True)
                say(f"envelope {envelope} is empty; its message is cancelled and reaches nobody")
            except HourwheelError as error:
                say(f"envelope {envelope} is empty, which its webhook finds when it comes ({error.code or error})")

    def receive(self, request: Request) -> Reply:
        """Answer a webhook. A 2xx ends its message. After any other answer the message comes again."""
        self.webhook_came.set()
        verdict = check(read_secret(self.secret), request.headers, request.body, time.time())
        if verdict != "ok":
            say(f"a webhook is refused: its signature is {verdict}")
            return Reply(401)
        envelope, attempt = json.loads(request.body)["envelope"], request.headers.get("hourwheel-attempt")
        try:
            say(f"the webhook of envelope {envelope} returns {self.give_back(envelope)} cents (attempt {attempt})")
        except (sqlite3.OperationalError, LookupError) as error:
            say(f"a webhook is refused, to come again later: {error}")
            return Reply(503)
        return Reply(200)

    def give_back(self, envelope: str) -> int:
        """Move what is left to the sender. Return the cents that were moved. If it is called again, it moves nothing
        and returns 0."""
        with transaction(self._path) as database:
            sender, _, _, left = _read(database, envelope)
            if left:
                database.execute(MOVE, (envelope, sender, "returned", left))
        return left

    def left(self, envelope: str) -> int:
        """The cents that are left in an envelope."""
        with transaction(self._path) as database:
            return _read(database, envelope)[3]

    async def serve(self, end: Callable[[], Awaitable[object]]) -> None:
        """Receive webhooks on a free port of this machine, until `end` returns."""
        receiver = Receiver(lambda _, request: self.receive(request))
        # Each start of a receiver tells Hourwheel its port, and a new secret.
        target = {"url": f"http://127.0.0.1:{await receiver.listen('127.0.0.1', 0)}/", "secret": self.secret}
        try:
            document = {"mode": "push", "target": target}
            await asyncio.to_thread(self._hourwheel.send, "PUT", f"/v1/topics/{TOPIC}", document, keyed=True)
            say(f"webhooks come to {target['url']}")
            await end()
        finally:
            await receiver.close()


def _read(database: sqlite3.Connection, envelope: str) -> tuple[str, int, str, int]:
    """The sender, the cents of a share, the message's id, and the cents that are left. Raises LookupError."""
    left = "SELECT -SUM(cents) FROM moves WHERE envelope = id"
    query = f"SELECT sender, share, message, ({left}) FROM envelopes WHERE id = ?"
    for sender, share, message, cents in database.execute(query, (envelope,)):
        return sender, share, message, cents
    raise LookupError(f"there is no envelope {envelope}")


async def story(bank: Bank, after: str) -> None:
    """Two envelopes: one is emptied in time, and half of the other goes back."""
    full, half = (f"{name}-{secrets.token_hex(3)}" for name in ("full", "half"))
    for envelope in (full, half):
        await asyncio.to_thread(bank.give, envelope, "mei", cents=1000, share=500, after=after)
    for envelope, person in ((full, "ann"), (full, "bo"), (half, "ann"), (half, "ann")):
        await asyncio.to_thread(bank.open, envelope, person)
    while await asyncio.to_thread(bank.left, half):
        await bank.webhook_came.wait()
        bank.webhook_came.clear()


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do the step that it names."""
    parser = command_line("red_envelope", ("story", "receive", "give", "open"))
    parser.add_argument("--person", default="mei", help="who gives or opens it [default: mei]")
    given = parser.parse_args(arguments)
    bank = Bank(Connection(given.url), given.database)
    with told_to_the_end():
        if given.step == "give":
            bank.give(given.id, given.person, cents=1000, share=500, after=given.after or "24h")
        elif given.step == "open":
            bank.open(given.id, given.person)
        else:
            told = asyncio.Event().wait if given.step == "receive" else lambda: story(bank, given.after or "5s")
            asyncio.run(bank.serve(told))


if __name__ == "__main__":
    main()
