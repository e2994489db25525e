"""Orders that are paid in time, never, and in the moment of their deadline; and messages that come twice."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from examples.connection import Connection
from examples.unpaid_order import TOPIC, Shop, main
from hourwheel.core.errors import BadRequest, OutcomeUnknown, Unavailable
from tests.example_programs.cluster import message, three_nodes, told, told_by_the_readme, urls_of
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """One cluster for all tests of the file, of which the last one kills a node. No order of one test is another's."""
    with three_nodes(tmp_path_factory) as found:
        yield found


@pytest.fixture
def urls(nodes: list[dict[str, Any]]) -> str:
    """The nodes' URLs."""
    return urls_of(nodes)


@pytest.fixture
def shop(urls: str, tmp_path: Path) -> Shop:
    """A shop, and its worker."""
    return Shop(Connection(urls), str(tmp_path / "orders.sqlite"))


@pytest.fixture
def orders(shop: Shop, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """The shop's database, as another program sees it."""
    with closing(sqlite3.connect(tmp_path / "orders.sqlite")) as database:
        yield database


def row(orders: sqlite3.Connection, order: str) -> tuple[str, str]:
    """The state of an order, and its message's id."""
    found: tuple[str, str] = orders.execute("SELECT state, message FROM orders WHERE id = ?", (order,)).fetchone()
    return found


def pulled(shop: Shop, order: str) -> dict[str, Any]:
    """The message of this order, leased to this worker."""
    (found,) = wait_until(lambda: shop.pull(wait_s=10))
    assert found["body"] == {"order": order}
    return dict(found)


def test_the_story(urls: str, tmp_path: Path) -> None:
    """As the README starts it: each of three orders ends as it should, in the database and in the cluster."""
    lines = told(tmp_path, urls, "unpaid_order", "--after", "2s")
    with closing(sqlite3.connect(tmp_path / "unpaid_order.sqlite")) as orders:
        found = {name.partition("-")[0]: (state, id) for name, state, id in orders.execute("SELECT * FROM orders")}
    assert {name: state for name, (state, _) in found.items()} == {"cup": "paid", "hat": "cancelled", "pen": "paid"}
    states = {name: message(urls, id)["state"] for name, (_, id) in found.items()}
    assert states == {"cup": "cancelled", "hat": "delivered", "pen": "delivered"}
    for part in ("its message is cancelled", "not paid, and now cancelled", "payment goes back", "message is leased"):
        assert sum(part in line for line in lines) == 1, lines


def test_the_commands_of_the_readme(urls: str, tmp_path: Path) -> None:
    """The story in its 5 seconds; and its steps, each in a process of its own, on one database."""
    lines = told_by_the_readme(tmp_path, urls, "unpaid_order")
    assert lines[-4].startswith("order 7 is waiting; message ")
    assert lines[-3:] == [
        "order 7 is paid; its message is cancelled and reaches nobody",
        "the worker waits for orders whose time is up",
        "stopped",
    ]
    with closing(sqlite3.connect(tmp_path / "unpaid_order.sqlite")) as orders:
        assert sorted(state for (state,) in orders.execute("SELECT state FROM orders")) == ["cancelled", *["paid"] * 3]


def test_what_cannot_be_done_is_one_line(urls: str, tmp_path: Path) -> None:
    """An order that is not there, and a cluster that is not."""
    database = ["--database", str(tmp_path / "orders.sqlite")]
    with pytest.raises(SystemExit, match=r"^there is no order 8$"):
        main(["pay", "8", "--url", urls, *database])
    with pytest.raises(SystemExit, match=r"^cannot reach http://127\.0\.0\.1:1: "):
        main(["place", "--url", "http://127.0.0.1:1", *database])


def test_paid_in_time(shop: Shop, orders: sqlite3.Connection, urls: str) -> None:
    """The message is cancelled, and no worker hears of it."""
    shop.place("paid", "1h")
    assert shop.pay("paid")
    state, id = row(orders, "paid")
    shown = message(urls, id)
    assert (state, shown["state"], shown["attempt"]) == ("paid", "cancelled", 0)


def test_a_request_that_is_sent_again(shop: Shop, orders: sqlite3.Connection, urls: str) -> None:
    """It makes no second message and no second order, also with another time."""
    shop.place("again", "1h")
    first = row(orders, "again")
    shop.place("again", "1h")
    shop.place("again", "2h")
    assert row(orders, "again") == first
    assert orders.execute("SELECT COUNT(*) FROM orders").fetchone() == (1,)
    with orders:
        orders.execute("DELETE FROM orders")  # the program died between the message and the row
    shop.place("again", "1h")
    assert row(orders, "again") == first
    assert shop.pay("again")
    assert message(urls, first[1])["state"] == "cancelled"


def test_never_paid(shop: Shop, orders: sqlite3.Connection, urls: str) -> None:
    """The order is cancelled once its time is up, and a payment after that goes back."""
    shop.place("unpaid", "1s")
    shop.work(until=lambda: shop.state("unpaid") != "waiting")
    state, id = row(orders, "unpaid")
    shown = message(urls, id)
    assert (state, shown["state"], shown["attempt"]) == ("cancelled", "delivered", 1)
    assert not shop.pay("unpaid")
    assert row(orders, "unpaid") == (state, id)


def test_paid_while_a_worker_has_the_message(
    shop: Shop, orders: sqlite3.Connection, urls: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """DELETE answers 409 `leased`; the worker finds the order paid, and leaves it."""
    shop.place("race", "0s")
    got = pulled(shop, "race")
    assert message(urls, got["id"])["state"] == "leased"
    assert shop.pay("race")
    assert "its message is leased, and the worker finds the order paid" in capsys.readouterr().out
    shop.handle(got)
    assert row(orders, "race") == ("paid", got["id"])
    assert message(urls, got["id"])["state"] == "delivered"


def test_paid_when_the_worker_has_decided(
    shop: Shop, orders: sqlite3.Connection, urls: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker cancelled the order first: the payment goes back, though the message is leased still."""
    shop.place("late", "0s")
    got = pulled(shop, "late")
    shop.handle(got)
    assert not shop.pay("late")
    assert row(orders, "late") == ("cancelled", got["id"])
    assert "order late is cancelled: the payment goes back" in capsys.readouterr().out


def test_a_message_that_comes_twice(
    shop: Shop, orders: sqlite3.Connection, urls: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker that is away for longer than its lease: another one handles the message, and its own ack is stale."""
    shop.place("twice", "0s")
    taken = {"wait": "10s", "lease": "1s"}
    (first,) = Connection(urls).send("POST", f"/v1/topics/{TOPIC}/pull", taken, wait_s=10)["messages"]
    second = pulled(shop, "twice")
    assert (second["id"], second["attempt"]) == (first["id"], 2)
    shop.handle(second)
    assert row(orders, "twice") == ("cancelled", first["id"])
    capsys.readouterr()
    shop.handle(first)
    assert "order twice is already cancelled; " in (said := capsys.readouterr().out)
    assert said.endswith("attempt 1, stale\n")
    assert row(orders, "twice") == ("cancelled", first["id"])
    assert message(urls, first["id"])["state"] == "delivered"


def test_a_worker_that_dies_before_its_ack(shop: Shop, orders: sqlite3.Connection, urls: str) -> None:
    """The message comes again to a worker, which finds the order cancelled and acknowledges it."""
    shop.place("died", "0s")
    taken = {"wait": "10s", "lease": "1s"}
    (first,) = Connection(urls).send("POST", f"/v1/topics/{TOPIC}/pull", taken, wait_s=10)["messages"]
    with orders:
        orders.execute("UPDATE orders SET state = 'cancelled' WHERE id = 'died'")
    shop.work(until=lambda: message(urls, first["id"])["state"] == "delivered")
    assert message(urls, first["id"])["attempt"] == 2
    assert row(orders, "died") == ("cancelled", first["id"])


def test_a_database_that_is_locked(shop: Shop, orders: sqlite3.Connection, urls: str) -> None:
    """The worker gives the message back, and decides when it comes again."""
    shop.place("locked", "0s")
    got = pulled(shop, "locked")
    orders.execute("BEGIN IMMEDIATE")
    shop.handle(got)
    assert row(orders, "locked") == ("waiting", got["id"])
    assert message(urls, got["id"])["last_error"] is not None
    orders.rollback()
    shop.work(until=lambda: shop.state("locked") != "waiting")
    assert row(orders, "locked") == ("cancelled", got["id"])
    shown = message(urls, got["id"])
    assert (shown["state"], shown["attempt"]) == ("delivered", 2)


def test_a_message_before_its_order(shop: Shop, orders: sqlite3.Connection, urls: str) -> None:
    """The program stood still between the message and the row: the message comes again, and finds the order."""
    Connection(urls).send("POST", "/v1/messages", {"topic": TOPIC, "body": {"order": "slow"}, "key": "order-slow"})
    shop.handle(pulled(shop, "slow"))
    shop.place("slow", "30m")
    state, id = row(orders, "slow")
    assert state == "waiting"
    shop.work(until=lambda: shop.state("slow") != "waiting")
    assert row(orders, "slow") == ("cancelled", id)
    assert message(urls, id)["attempt"] == 2


def test_an_order_whose_message_has_ended(shop: Shop, orders: sqlite3.Connection, urls: str) -> None:
    """The program died between the message and the row, and was asked again too late: the order is cancelled."""
    wanted = {"topic": TOPIC, "body": {"order": "ended"}, "delay": "1h", "key": "order-ended"}
    id = Connection(urls).send("POST", "/v1/messages", wanted, keyed=True)["id"]
    Connection(urls).send("DELETE", f"/v1/messages/{id}", keyed=True)
    shop.place("ended", "1h")
    assert row(orders, "ended") == ("cancelled", id)


def test_paid_when_nothing_answers(shop: Shop, orders: sqlite3.Connection, urls: str, tmp_path: Path) -> None:
    """The payment counts, and the worker finds the order paid when the message comes."""
    shop.place("away", "0s")
    assert Shop(Connection("http://127.0.0.1:1"), str(tmp_path / "orders.sqlite")).pay("away")
    shop.handle(pulled(shop, "away"))
    state, id = row(orders, "away")
    assert (state, message(urls, id)["state"]) == ("paid", "delivered")


@pytest.mark.parametrize("error", [Unavailable("no leader"), OutcomeUnknown("no answer")])
def test_a_worker_outlives_an_outage(shop: Shop, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """It pulls again. Another error ends it."""
    pulls = iter([error, error, BadRequest("a field")])

    def fail() -> list[dict[str, Any]]:
        raise next(pulls)

    monkeypatch.setattr(shop, "pull", fail)
    with pytest.raises(BadRequest, match="a field"):
        shop.work()


def test_a_leader_that_dies(shop: Shop, nodes: list[dict[str, Any]], orders: sqlite3.Connection, urls: str) -> None:
    """While the worker waits: another node leads, and the order is cancelled when its time is up."""
    shop.place("killed", "2s")
    leader = Connection(urls).send("GET", "/v1/cluster")["leader"]
    os.kill(next(node["pid"] for node in nodes if node["id"] == leader), signal.SIGKILL)
    shop.work(until=lambda: shop.state("killed") != "waiting")
    state, id = row(orders, "killed")
    assert (state, message(urls, id)["state"]) == ("cancelled", "delivered")
