"""The amount of work of each measurement: full by default, a hundredth to see that everything works."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Scale:
    """Counts are messages. `seconds` is how long rates and latenesses are measured."""

    seconds: float = 10.0
    drain: int = 1_000_000  # due in one second
    push: int = 40_000  # due in one second, to all receivers together
    due_rate: int = 5_000  # a second, where lateness is measured
    hanging: int = 1_000_000  # due at once to a receiver that never answers
    topics: int = 99_990  # with a message each: schedules make 100,000 at most
    closed: int = 9_900  # to ports on which nobody listens
    failover_pending: int = 1_000_000
    failover_ready: int = 200_000
    pending: int = 20_000_000  # over 30 days
    listed: int = 10_000_000  # over 24 h
    cancelled: int = 1_000_000  # by one request
    behind: int = 2_000_000  # missed by a node that was away
    hours: int = 80_000  # with a message each
    long_hour: int = 10_000_000  # messages of one hour
    peer_drain: int = 100_000  # of peers: their rates are steady, and some of them fill slowly

    def quick(self) -> "Scale":
        """Return a scale so much smaller that a run takes minutes. It shows that everything works, and its figures mean
        little."""
        return replace(
            self,
            seconds=min(self.seconds, 2.0),
            drain=20_000,
            push=2_000,
            due_rate=1_000,
            hanging=20_000,
            topics=1_000,
            closed=500,
            failover_pending=20_000,
            failover_ready=5_000,
            pending=200_000,
            listed=100_000,
            cancelled=20_000,
            behind=100_000,
            hours=2_000,
            long_hour=100_000,
            peer_drain=5_000,
        )
