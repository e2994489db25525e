"""Events that only the simulator sees: the insides of nodes, at their true moment.

Real processes give none of these events. The checkers that read them then have nothing to judge.
"""

from chaos.history.seen import Seen


class Begun(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node recorded that it begins a hand-over.

    - `at_ms` is by the node's clock. `wall_ms` is true time.
    - `due_ms` is the unit's due time by that node's records. `asked_due_ms` is what its client asked for.
    - `median_ahead_ms`: how far the median of the nodes' clocks is ahead of the truth. It is the most within the last
      second, of the clocks that this node can hear. None: not told.
    - `known_s`: a node bounds its clock by those of the others. This is the age in seconds of the oldest time that it
      uses.
    - `leased_until_ms` is by the log, 0 if the log has no lease yet.
    """

    node: str
    message_id: str
    term: int
    attempt: int
    at_ms: int
    asked_due_ms: int
    pushed: bool
    due_ms: int = 0
    median_ahead_ms: float | None = None
    known_s: float = 0.0
    leased_until_ms: int = 0


class Ended(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node recorded that a push failed, as far as it knows. Its receiver may have taken it all the same."""

    node: str
    message_id: str
    term: int
    attempt: int


class Settled(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The effect of an entry on a message, as the first node that applied the entry recorded it. `what` is the new
    state of storage.format.rows. `code` is the reason in the settle record, which names the hand-over (term,
    attempt)."""

    message_id: str
    index: int
    what: int
    term: int
    attempt: int
    code: int


class Proposal(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A leader appended an entry to its log. `names` are those of the requests in it, as in `RequestAnswered`. `crc` is
    the checksum of the entry, as in `Applied`."""

    node: str
    crc: int
    names: tuple[str, ...]


class ProcessEnded(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The process of a node ended without notice: it was killed, crashed, failed, or lost power."""

    node: str


class Crashed(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node ended by itself. `expected`: a fault on its disk explains it. An exception of a callback or request, which
    a node survives, is the same event."""

    node: str
    error: str
    expected: bool


class Applied(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node applied the entry at `index`, with its term, its checksum and the rolling hash after it.

    Only the first node that applied the entry has the other fields:

    - `stamp_ms`: the leader's stamp, 0: not told.
    - `state`: the dispatch state after the entry (tick, local index, applied index), if the entry changed it.
      `realigned`: a Realign changed it.
    - `units`: the new units as pairs of (position, due_ms).
    - `shown_ms`: the latest time from which the clock of the term's leader was set back while it led. 0: never.
    - `version`: the entry's version. `raises`: the entry raises the level of the cluster.
    """

    node: str
    index: int
    term: int
    crc: int
    rolling: str
    stamp_ms: int = 0
    state: tuple[int, int, int] | None = None
    realigned: bool = False
    units: tuple[tuple[int, int], ...] = ()
    shown_ms: int = 0
    version: int = 1
    raises: bool = False


class Intruded(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node gave a stranger a member's place, or heard its message `what` (chaos/simulator/faults/stranger.py).
    `knows` is the kind of the stranger. `moved` names what had changed at the node right behind the message, empty if
    nothing."""

    node: str
    knows: str
    what: str
    moved: str = ""


class Raised(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A leader proposes that the level of the cluster rises to `level`. `heard` has, for each other member, the newest
    version of entries that it reads, by its last hello to this node. 0: no hello, or not connected."""

    node: str
    level: int
    heard: tuple[tuple[str, int], ...]


class LevelAsked(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """The answer to a client that asked for the next level. Either `level` is the level of the cluster by then. Or
    `lags` names a member that does not read the next one: it reads up to `reads` (0: not connected). If neither is set,
    the request was refused for another reason, or its outcome is unknown. `older`: the members that ran as the build
    before lately."""

    level: int = 0
    lags: str = ""
    reads: int = 0
    older: tuple[str, ...] = ()


class LeftOut(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A leader proposed a dispatch state that counts this open unit as dispatched, because it is due before slot
    `tick`. The leader had not dispatched it."""

    node: str
    term: int
    position: int
    due_ms: int
    tick: int


class SetBack(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node recorded a hand-over of the unit at `position`, though it knew a newer one. `fence` is the (term, attempt)
    that it recorded, `newest` that of the newer one."""

    node: str
    position: int
    fence: tuple[int, int]
    newest: tuple[int, int]


class Sure(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """At this moment this node trusts in its own leadership, so it would hand over."""

    node: str
    term: int


class Promoted(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """A node begins a term as leader. `open_ids`: the messages that are due by its records and have not ended, without
    a lease that runs. `given`: the leader before transferred the leadership to it. Otherwise it stood for election by
    itself."""

    node: str
    term: int
    open_ids: tuple[str, ...]
    given: bool = True


class Digest(Seen, frozen=True, kw_only=True, tag=True, gc=False):
    """At the end, all healed: the hash of the files of a node at `applied_index`. `damage` lists the checksums that do
    not hold."""

    node: str
    applied_index: int
    digest: str
    damage: tuple[str, ...] = ()
