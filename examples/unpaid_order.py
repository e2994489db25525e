"""An order that is not paid within 30 minutes is cancelled.

Hourwheel keeps the deadline, and the shop's own database decides. An order is `waiting` at first, and becomes `paid`
or `cancelled`. Each step is one UPDATE that asks for `waiting`, so that it happens once. Then no harm is done by a
message that comes twice, or by a payment that comes in the moment of the deadline.

    python -m examples.unpaid_order [story | work | place 7 --after 30m | pay 7]
"""

import secrets
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from examples.connection import OPEN, Connection
from examples.database import transaction
from examples.story import command_line, say, told_to_the_end
from hourwheel.core.errors import Conflict, HourwheelError, NotDone, OutcomeUnknown

TOPIC = "unpaid-orders"
TABLE = "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, state TEXT NOT NULL, message TEXT NOT NULL)"


class Shop:
    """The orders of a database, and a message for each that comes when its time is up."""

    def __init__(self, hourwheel: Connection, path: str) -> None:
        self._hourwheel, self._path = hourwheel, path
        with transaction(path) as orders:
            orders.execute(TABLE)

    def place(self, order: str, after: str) -> None:
        """Take an order that has to be paid within `after`. If it is called again, it stays one order with one
        message."""
        # The message comes first: an order without one would wait for ever. A message without an order comes again for
        # some hours, and becomes a dead letter.
        message = self._hourwheel.schedule(TOPIC, {"order": order}, after, key=f"order-{order}")
        row = (order, "waiting" if message["state"] in OPEN else "cancelled", message["id"])
        with transaction(self._path) as orders:
            orders.execute("INSERT OR IGNORE INTO orders VALUES (?, ?, ?)", row)
        say(f"order {order} is {self.state(order)}; message {message['id']} is due at {message['due'][11:]}")

    def pay(self, order: str) -> bool:
        """Take a payment, and cancel the message. If it returns False, the payment came too late and has to go back."""
        changed, state, message = self._step(order, "paid")
        if not changed:
            say(f"order {order} is {state}: the payment goes back")
            return False
        try:
            self._hourwheel.send("DELETE", f"/v1/messages/{message}", keyed=True)
            say(f"order {order} is paid; its message is cancelled and reaches nobody")
        except Conflict as conflict:
            # `leased`: a worker has it in this moment. `already-settled`: a worker looked in between, and is done.
            say(f"order {order} is paid; its message is {conflict.code}, and the worker finds the order paid")
        except HourwheelError as error:
            # The order is paid all the same. To cancel only spares the worker a look.
            say(f"order {order} is paid; its message comes, and the worker finds the order paid ({error})")
        return True

    def pull(self, wait_s: int = 1) -> list[dict[str, Any]]:
        """Return messages that are due, each leased to this worker. Wait up to `wait_s` for the first one."""
        wanted = {"max": 10, "wait": f"{wait_s}s"}
        # Where an answer is lost, its messages come again at the end of their lease: to pull twice is safe.
        answer = self._hourwheel.send("POST", f"/v1/topics/{TOPIC}/pull", wanted, keyed=True, wait_s=wait_s)
        return list(answer["messages"])

    def handle(self, message: dict[str, Any]) -> None:
        """Cancel the order of a message unless it is paid, and ack the message."""
        order = message["body"]["order"]
        try:
            changed, state, _ = self._step(order, "cancelled")
        except (sqlite3.OperationalError, LookupError) as error:
            say(f"message {self._settle('nack', message)}, to come again later: {error}")
            return
        what = f"not paid, and now {state}" if changed else f"already {state}"
        # Now the order is decided. A worker that dies here leaves the message to another, which changes nothing.
        result = self._settle("ack", message)
        say(f"order {order} is {what}; {message['lateness_ms']} ms late, attempt {message['attempt']}, {result}")

    def work(self, until: Callable[[], bool] = lambda: False) -> None:
        """Pull messages and handle them, until `until` returns True."""
        # A worker that dies with a message has it for 10 s; then another worker gets it.
        self._hourwheel.send("PUT", f"/v1/topics/{TOPIC}", {"lease": "10s"}, keyed=True)
        say("the worker waits for orders whose time is up")
        while not until():
            try:
                for message in self.pull():
                    self.handle(message)
            except (NotDone, OutcomeUnknown) as error:
                say(f"the worker goes on, and what it pulled comes again: {error}")

    def state(self, order: str) -> str:
        """The order's state. Raises LookupError."""
        with transaction(self._path) as orders:
            return _read(orders, order)[0]

    def _step(self, order: str, state: str) -> tuple[bool, str, str]:
        """Change a waiting order to this state. Return if it was waiting, its state now, and the id of its message."""
        with transaction(self._path) as orders:
            update = "UPDATE orders SET state = ? WHERE id = ? AND state = 'waiting'"
            changed = orders.execute(update, (state, order)).rowcount == 1
            return changed, *_read(orders, order)

    def _settle(self, how: str, message: dict[str, Any]) -> str:
        """Ack or nack the message, and return the result. The result `stale` says that the lease had ended. Then
        another worker has the message, or it comes again."""
        receipts = {"receipts": [message["receipt"]]}
        answer = self._hourwheel.send("POST", f"/v1/topics/{TOPIC}/{how}", receipts, keyed=True)
        return str(answer["results"][0]["result"])


def _read(orders: sqlite3.Connection, order: str) -> tuple[str, str]:
    """The order's state, and its message's id. Raises LookupError."""
    for state, message in orders.execute("SELECT state, message FROM orders WHERE id = ?", (order,)):
        return state, message
    raise LookupError(f"there is no order {order}")


def story(shop: Shop, after: str) -> None:
    """Three orders: one is paid in time, one never, and one in the moment of its deadline."""
    cup, hat, pen = (f"{name}-{secrets.token_hex(3)}" for name in ("cup", "hat", "pen"))
    shop.place(cup, after)
    shop.place(hat, after)
    shop.place(hat, after)  # the customer pressed twice
    shop.pay(cup)
    shop.work(until=lambda: shop.state(hat) != "waiting")
    shop.pay(hat)
    shop.place(pen, "0s")
    for message in shop.pull(wait_s=10):
        shop.pay(pen)  # a worker has the message, and has not looked at the order yet
        shop.handle(message)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do the step that it names."""
    given = command_line("unpaid_order", ("story", "work", "place", "pay")).parse_args(arguments)
    shop = Shop(Connection(given.url), given.database)
    with told_to_the_end():
        if given.step == "work":
            shop.work()
        elif given.step == "place":
            shop.place(given.id, given.after or "30m")
        elif given.step == "pay":
            shop.pay(given.id)
        else:
            story(shop, given.after or "5s")


if __name__ == "__main__":
    main()
