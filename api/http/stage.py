"""The stages of a connection, and how long it may stand at each: one state machine for each connection, and its table.

| stage     | begins                                             | may last               | then          |
|-----------|----------------------------------------------------|------------------------|---------------|
| OPENED    | when it is made                                    | HEADER_MAX_S           | closed        |
| HEADER    | with the first byte of a request                   | HEADER_MAX_S           | closed        |
| READING   | with a header whose body is not here whole         | as the route says      | 408           |
| WORKING   | when the request is here whole, until the answer   | as the route says, (1) | answer        |
| ANSWERING | with an answer that the socket does not take whole | ANSWER_MAX_S and size  | aborted       |
| LINGERING | with the answer, where the body is not read whole  | LINGER_S               | closed        |
| IDLE      | with an answer, when no other request is there     | KEEPALIVE_S            | closed        |

If unread answers hold too much (api/port/budget.py), the connection that is ANSWERING for longest is closed. A
connection that is closed with unsent bytes has LINGER_S for them. Then it is aborted.

(1) HALF_CLOSED_MAX_S once the client has closed its side. Then the connection is closed, because nothing says if the
client still waits for the answer. A client that asks for long counts and goes away would delay the clients that stay.

A pipelined request that is here whole begins WORKING at once. For one that is here in part, HEADER began with its first
byte behind the request before it. In READING a body has BODY_MAX_S (api/http/exchange.py).

At the bound on connections, one is closed to admit another. It is taken from the first of these groups that has one. In
a group, the one whose stage or wait began first is taken:
- connections that have asked for nothing for two seconds (OPENED, IDLE)
- connections that have asked for nothing for less, or that are not WORKING, or that are WORKING and wait for messages.
  One that waits gets its answer first.
"""

from enum import IntEnum
from typing import Final

#: A request's header has to be complete this long after its first byte (or after connecting).
HEADER_MAX_S: Final = 10.0
#: A client that has closed its side gets its answer within this.
HALF_CLOSED_MAX_S: Final = 10.0
#: An idle connection is kept this long. That is longer than the idle time of common clients and proxies.
KEEPALIVE_S: Final = 75.0
#: After an early refusal (413, 415), the rest of the body is read and dropped for this long, so the client sees the
#: answer.
LINGER_S: Final = 2.0
#: Pause between two reads of that rest, of 256 KB at most. Without it 40 clients with refused bodies took all of the
#: loop.
LINGER_PAUSE_S: Final = 0.025
#: Time for a client to read an answer, and a second more for each ANSWER_BYTES_PER_S of it.
ANSWER_MAX_S: Final = 30.0
ANSWER_BYTES_PER_S: Final = 16 * 1024


class Stage(IntEnum):
    """A stage of a connection, as in the table above."""

    OPENED = 0
    HEADER = 1
    READING = 2
    WORKING = 3
    ANSWERING = 4
    LINGERING = 5
    IDLE = 6


#: The stages to compare with. To look a member up in its class costs 0.1 us in Python 3.11, ten times a request.
OPENED, HEADER, READING, WORKING, ANSWERING, LINGERING, IDLE = Stage
