"""The load of a run on real processes and the behaviour of its clients: one frozen structure. The structure and its
seed are all that is needed to repeat the load."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """A load. Defaults are a light mixed load: half the messages with a key, ten a request."""

    topic: str = "chaos"
    rate: float = 1_000  # messages a second
    duration_s: float = 10.0  # of offering
    batch: int = 10  # messages a request; 1: single POST
    delay_ms: tuple[int, int] = (200, 2_000)  # due this long after the offer, uniform, ends included
    due_together_ms: int = 1  # due times are rounded up to multiples of this, for fewer and larger hand-overs
    keyed_share: float = 0.5  # of the requests: with keys, so repeated after an unknown outcome
    once_share: float = 0.0  # of the others: each message under an `Idempotency-Key`
    wishes: bool = False  # beside: replaces and extends under a few keys, and atomic batches
    sets: int = 0  # so many topics beside, in which operations change many messages
    sets_rate: float = 30.0  # messages a second in these topics together
    sets_delay_ms: tuple[int, int] = (200, 20_000)  # of these messages
    cancel_share: float = 0.0  # of the acknowledged messages, cancelled around their due time
    reschedule_share: float = 0.0  # of the acknowledged messages, moved around their due time by reschedule_ms
    reschedule_ms: int = 1_500
    push_share: float = 0.0  # of the requests: to the topic with push, the others to the topic with pull
    push_fail_share: float = 0.0  # of the pushes, answered 500, so that they come again
    push_backoff_ms: int = 200
    push_answer_ms: int = 0  # a receiver answers this long after it has read the push
    strict: bool = False  # both topics are strict
    push_timeout_ms: int = 2_000  # a push on the wire of a killed leader comes again 5 s later than this
    twice_share: float = 0.0  # of the pulled messages: acked twice
    late_share: float = 0.0  # acked when its lease has ended
    forget_share: float = 0.0  # never acked
    nack_share: float = 0.0  # given back, to come again after nack_delay_ms
    extend_share: float = 0.0  # extended, and acked within both leases
    nack_delay_ms: int = 300
    consumers_per_node: int = 2
    pull_max: int = 200
    wait_ms: int = 2_000  # of a long poll
    lease_ms: int = 10_000  # after an ack lost in a failover a message comes again this much later
    retry_s: float = 20.0  # a producer gives a message up after this
    request_s: float = 5.0  # a request without answer is given up after this (a long poll: wait_ms more)
    drain_s: float = 40.0  # the longest wait for outstanding messages after the last offer
    seed: int = 1

    @property
    def push_topic(self) -> str:
        """The name of the topic with push."""
        return f"{self.topic}-push"

    @property
    def set_topics(self) -> tuple[str, ...]:
        """The names of the topics in which operations change many messages."""
        return tuple(f"{self.topic}-set-{number}" for number in range(self.sets))

    @property
    def handover(self) -> str:
        """The setting `handover` of both topics."""
        return "strict" if self.strict else "fast"

    @property
    def count(self) -> int:
        """The number of all messages."""
        return round(self.rate * self.duration_s)
