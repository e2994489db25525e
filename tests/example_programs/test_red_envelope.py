"""Envelopes that are emptied in time, and that go back; webhooks that come twice, late or from somebody else."""

import asyncio
import base64
import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from examples.connection import Connection
from examples.red_envelope import TOPIC, Bank, main
from hourwheel.webhook_receiver import Reply, Request
from hourwheel.webhook_signature import PREFIX, read_secret, sign
from tests.example_programs.cluster import message, three_nodes, told, told_by_the_readme, urls_of
from tests.waiting import until

Scene = Callable[[], Awaitable[None]]
BODY = b'{"envelope": "signed"}'


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One cluster for all tests of the file; each test's receiver takes the topic over."""
    with three_nodes(tmp_path_factory) as found:
        yield urls_of(found)


@pytest.fixture
def bank(urls: str, tmp_path: Path) -> Bank:
    """A bank whose receiver is not up yet."""
    return Bank(Connection(urls), str(tmp_path / "bank.sqlite"))


def rows(directory: Path, envelope: str, file: str = "bank.sqlite") -> list[tuple[str, str, int]]:
    """Who got how many cents of this envelope, and why; in order."""
    with closing(sqlite3.connect(directory / file)) as database:
        query = "SELECT person, kind, cents FROM moves WHERE envelope = ? ORDER BY rowid"
        return list(database.execute(query, (envelope,)))


def id_of(directory: Path, envelope: str, file: str = "bank.sqlite") -> str:
    """The envelope's message."""
    with closing(sqlite3.connect(directory / file)) as database:
        (found,) = database.execute("SELECT message FROM envelopes WHERE id = ?", (envelope,)).fetchone()
        return str(found)


def serve(bank: Bank, scene: Scene) -> None:
    """Runs a scene while the bank's receiver is up."""
    asyncio.run(asyncio.wait_for(bank.serve(scene), 60))


async def delivered(urls: str, id: str) -> None:
    """Returns when the message is."""
    await until(lambda: asyncio.to_thread(lambda: message(urls, id)["state"] == "delivered"))


def test_the_story(urls: str, tmp_path: Path) -> None:
    """As the README starts it: of one envelope nothing goes back, of the other one half."""
    lines = told(tmp_path, urls, "red_envelope", "--after", "2s")
    with closing(sqlite3.connect(tmp_path / "red_envelope.sqlite")) as database:
        found = database.execute("SELECT id, message FROM envelopes").fetchall()
    ids = {row[0].partition("-")[0]: row for row in found}
    full, half = (rows(tmp_path, ids[name][0], "red_envelope.sqlite") for name in ("full", "half"))
    assert full == [("mei", "given", -1000), ("ann", "opened", 500), ("bo", "opened", 500)]
    assert half == [("mei", "given", -1000), ("ann", "opened", 500), ("mei", "returned", 500)]
    assert message(urls, ids["full"][1])["state"] == "cancelled"
    assert message(urls, ids["half"][1])["handed_over"] is not None
    assert "returns 500 cents (attempt 1)" in lines[-1]


def test_the_commands_of_the_readme(urls: str, tmp_path: Path) -> None:
    """The story in its 5 seconds; and its steps, each in a process of its own, on one database."""
    lines = told_by_the_readme(tmp_path, urls, "red_envelope")
    assert lines[-4].startswith("mei's envelope 5f0c has 1000 cents; ")
    assert lines[-3] == "ann opens envelope 5f0c and gets 500 of 1000 cents"
    assert lines[-2].startswith("webhooks come to http://127.0.0.1:")
    assert lines[-1] == "stopped"
    assert rows(tmp_path, "5f0c", "red_envelope.sqlite") == [("mei", "given", -1000), ("ann", "opened", 500)]


def test_emptied_in_time(bank: Bank, urls: str, tmp_path: Path) -> None:
    """The last share cancels the message; it was never handed over. Given again, it is the same envelope."""
    for _ in range(2):
        bank.give("full", "mei", cents=900, share=500, after="1h")
    for person in ("ann", "ann", "bo", "cem"):
        bank.open("full", person)
    assert rows(tmp_path, "full") == [("mei", "given", -900), ("ann", "opened", 500), ("bo", "opened", 400)]
    shown = message(urls, id_of(tmp_path, "full"))
    assert (shown["state"], shown["attempt"]) == ("cancelled", 0)


def test_what_is_left_goes_back(bank: Bank, urls: str, tmp_path: Path) -> None:
    """By a signed webhook; nobody gets anything from it after that."""

    async def scene() -> None:
        await asyncio.to_thread(bank.give, "half", "mei", cents=1000, share=400, after="1s")
        await asyncio.to_thread(bank.open, "half", "ann")
        await delivered(urls, id_of(tmp_path, "half"))
        await asyncio.to_thread(bank.open, "half", "bo")

    serve(bank, scene)
    assert rows(tmp_path, "half") == [("mei", "given", -1000), ("ann", "opened", 400), ("mei", "returned", 600)]
    assert bank.left("half") == 0


def test_a_webhook_that_comes_twice(
    bank: Bank, urls: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first answer is lost behind the transaction: the second attempt returns nothing, and ends the message."""
    receive, seen = bank.receive, list[Request]()

    def lose_the_first_answer(request: Request) -> Reply:
        reply = receive(request)
        seen.append(request)
        return reply if len(seen) > 1 else Reply(503)

    async def scene() -> None:
        await asyncio.to_thread(bank.give, "twice", "mei", cents=1000, share=500, after="1s")
        await delivered(urls, id_of(tmp_path, "twice"))

    monkeypatch.setattr(bank, "receive", lose_the_first_answer)
    serve(bank, scene)
    assert [request.headers["hourwheel-attempt"] for request in seen] == ["1", "2"]
    assert len({request.headers["webhook-id"] for request in seen}) == 1
    assert rows(tmp_path, "twice") == [("mei", "given", -1000), ("mei", "returned", 1000)]
    assert message(urls, id_of(tmp_path, "twice"))["attempt"] == 2
    assert "returns 0 cents (attempt 2)" in capsys.readouterr().out


def test_the_last_share_while_the_webhook_is_on_its_way(
    bank: Bank, urls: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DELETE answers 409 `leased`, and the webhook finds nothing left."""
    receive = bank.receive

    def open_first(request: Request) -> Reply:
        bank.open("race", "ann")
        return receive(request)

    async def scene() -> None:
        await asyncio.to_thread(bank.give, "race", "mei", cents=500, share=500, after="1s")
        await delivered(urls, id_of(tmp_path, "race"))

    monkeypatch.setattr(bank, "receive", open_first)
    serve(bank, scene)
    assert rows(tmp_path, "race") == [("mei", "given", -500), ("ann", "opened", 500)]
    assert message(urls, id_of(tmp_path, "race"))["attempt"] == 1
    assert "finds when it comes (leased)" in capsys.readouterr().out


def test_a_database_that_is_locked(bank: Bank, urls: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The webhook is answered 503, and comes again."""

    async def scene() -> None:
        await asyncio.to_thread(bank.give, "locked", "mei", cents=1000, share=500, after="1s")
        id = id_of(tmp_path, "locked")
        with closing(sqlite3.connect(tmp_path / "bank.sqlite")) as other:
            other.execute("BEGIN IMMEDIATE")
            await bank.webhook_came.wait()
            await until(lambda: asyncio.to_thread(lambda: message(urls, id)["last_error"]))
        await delivered(urls, id)
        assert message(urls, id)["attempt"] > 1
        assert "to come again later: database is locked" in capsys.readouterr().out

    serve(bank, scene)
    assert rows(tmp_path, "locked") == [("mei", "given", -1000), ("mei", "returned", 1000)]


def signed(key: bytes, at_s: float) -> Request:
    """A webhook with a signature."""
    at = str(int(at_s))
    headers = {"webhook-id": "0A", "webhook-timestamp": at, "webhook-signature": sign(key, "0A", at, BODY)}
    return Request("POST", "/", headers, BODY)


def test_a_webhook_from_somebody_else(bank: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a signature, with that of another secret, or an old one: refused, and no money moves."""
    bank.give("signed", "mei", cents=1000, share=500, after="1h")
    key = read_secret(bank.secret)
    other = read_secret(PREFIX + base64.b64encode(secrets.token_bytes(32)).decode())
    for request in (Request("POST", "/", {}, BODY), signed(other, time.time()), signed(key, time.time() - 3600)):
        assert bank.receive(request) == Reply(401)
    assert rows(tmp_path, "signed") == [("mei", "given", -1000)]
    assert bank.receive(signed(key, time.time())) == Reply(200)
    assert rows(tmp_path, "signed") == [("mei", "given", -1000), ("mei", "returned", 1000)]


def test_a_webhook_before_its_envelope(
    bank: Bank, urls: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program stood still between the message and the row: the webhook comes again, and the money goes back."""
    receive, seen = bank.receive, list[Reply]()

    def count(request: Request) -> Reply:
        seen.append(receive(request))
        return seen[-1]

    async def scene() -> None:
        wanted = {"topic": TOPIC, "body": {"envelope": "slow"}, "key": "envelope-slow"}
        await asyncio.to_thread(Connection(urls).send, "POST", "/v1/messages", wanted, keyed=True)
        await until(lambda: seen)
        await asyncio.to_thread(bank.give, "slow", "mei", cents=1000, share=500, after="24h")
        await delivered(urls, id_of(tmp_path, "slow"))

    monkeypatch.setattr(bank, "receive", count)
    serve(bank, scene)
    assert [reply.status for reply in (seen[0], seen[-1])] == [503, 200]
    assert rows(tmp_path, "slow") == [("mei", "given", -1000), ("mei", "returned", 1000)]
    assert "there is no envelope slow" in capsys.readouterr().out


def test_an_envelope_whose_message_has_ended(bank: Bank, urls: str, tmp_path: Path) -> None:
    """The program died between the message and the row, and was asked again too late: no money is taken."""
    wanted = {"topic": TOPIC, "body": {"envelope": "dead"}, "delay": "1h", "key": "envelope-dead"}
    id = Connection(urls).send("POST", "/v1/messages", wanted, keyed=True)["id"]
    Connection(urls).send("DELETE", f"/v1/messages/{id}", keyed=True)
    with pytest.raises(LookupError, match="there is no envelope dead"):
        bank.give("dead", "mei", cents=1000, share=500, after="1h")
    assert rows(tmp_path, "dead") == []


def test_no_cluster(tmp_path: Path) -> None:
    """One line says so."""
    with pytest.raises(SystemExit, match=r"^cannot reach http://127\.0\.0\.1:1: "):
        main(["--url", "http://127.0.0.1:1", "--database", str(tmp_path / "bank.sqlite")])
