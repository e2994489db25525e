"""Counts the messages that a writer scheduled, and those that arrived."""

import asyncio


class DeliveryTally:
    """The ids of the messages that one writer scheduled, and how often each message was delivered. A message may arrive
    before its writer knows the id."""

    def __init__(self) -> None:
        self.written: set[str] = set()
        self.deliveries: dict[str, int] = {}
        self._arrived = asyncio.Event()

    def arrive(self, id_text: str) -> None:
        """Count a delivery."""
        self.deliveries[id_text] = self.deliveries.get(id_text, 0) + 1
        self._arrived.set()

    def missing(self) -> list[str]:
        """The ids that were written and did not arrive, in order."""
        return sorted(self.written - self.deliveries.keys())

    async def wait(self, timeout_s: float) -> list[str]:
        """Wait until everything written has arrived, at most `timeout_s`. Return what is missing then. Call it when the
        writer has ended."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.missing():
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            pass
        return self.missing()
