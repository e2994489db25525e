"""What a workload offers and how its clients behave: one frozen structure, so that a run is repeated from it and its
seed.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Defaults are a light mixed load: half the messages with a key, ten a request."""

    topic: str = "chaos"
    rate: float = 1_000  # messages a second
    duration_s: float = 10.0  # of offering
    batch: int = 10  # messages a request; 1: single POST
    delay_ms: tuple[int, int] = (200, 2_000)  # due so long after the offer, uniform, ends included
    due_together_ms: int = 1  # due times are rounded up to multiples of this: fewer hand-overs, each of more messages
    keyed_share: float = 0.5  # of the requests: with keys, hence sent again when the outcome is unknown
    cancel_share: float = 0.0  # of the acknowledged messages: cancelled around their due time
    reschedule_share: float = 0.0  # of the acknowledged messages: moved around their due time, by reschedule_ms
    reschedule_ms: int = 1_500
    push_share: float = 0.0  # of the requests: to a topic that is pushed, the others are pulled
    push_fail_share: float = 0.0  # of the pushes: answered 500, so that they come again
    push_backoff_ms: int = 200
    push_answer_ms: int = 0  # a receiver answers so long after it has read: so long a push is on the wire
    strict: bool = False  # both topics hand over strictly
    push_timeout_ms: int = 2_000  # a push on the wire of a killed leader comes again 5 s later than this
    twice_share: float = 0.0  # of what is pulled: acked twice
    late_share: float = 0.0  # acked when its lease has ended
    forget_share: float = 0.0  # never acked
    nack_share: float = 0.0  # given back, to come again after nack_delay_ms
    extend_share: float = 0.0  # leased for longer; acked within both leases
    nack_delay_ms: int = 300
    consumers_per_node: int = 2
    pull_max: int = 200
    wait_ms: int = 2_000  # of a long poll
    lease_ms: int = 10_000  # after an ack lost in a failover a message comes again so much later
    retry_s: float = 20.0  # a producer gives a message up after this
    request_s: float = 5.0  # a request without answer is given up after this (a long poll: wait_ms more)
    drain_s: float = 40.0  # after the last offer: how long to wait for what is outstanding
    seed: int = 1

    @property
    def push_topic(self) -> str:
        """The topic of what is pushed."""
        return f"{self.topic}-push"

    @property
    def handover(self) -> str:
        """The topics' setting."""
        return "strict" if self.strict else "fast"

    @property
    def count(self) -> int:
        """Messages in all."""
        return round(self.rate * self.duration_s)
