"""Topics that pulls wait for, and which of them may have something new for these."""

from __future__ import annotations

from collections.abc import Collection


class Waited:
    """Of one leader. A step looks at the topics that have changed, however many are waited for."""

    def __init__(self) -> None:
        self._topics: set[int] = set()
        self._changed: set[int] = set()  # a part of those

    def wait(self, topic: int) -> None:
        """Some pull waits for the topic."""
        self._topics.add(topic)

    def leave(self, topic: int) -> None:
        """None does any more."""
        self._topics.discard(topic)
        self._changed.discard(topic)

    def note(self, topic: int) -> None:
        """It has got units, or those that it has may go again."""
        if topic in self._topics:
            self._changed.add(topic)

    def note_all(self, topics: Collection[int]) -> None:
        """Likewise each of these."""
        fewer, more = (topics, self._topics) if len(topics) < len(self._topics) else (self._topics, topics)
        self._changed.update(topic for topic in fewer if topic in more)

    def take(self) -> set[int]:
        """Those that have changed since this was asked last."""
        changed, self._changed = self._changed, set()
        return changed
