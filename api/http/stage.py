"""Where a connection stands, and for how long it may stand there: one machine a connection, and its table.

| stage     | begins                                             | may last               | then          |
|-----------|----------------------------------------------------|------------------------|---------------|
| OPENED    | when it is made                                    | HEADER_MAX_S           | closed        |
| HEADER    | with the first byte of a request                   | HEADER_MAX_S           | closed        |
| READING   | with a header whose body is not here whole         | as the route says      | 408           |
| WORKING   | when the request is here whole, until the answer   | as the route says, (1) | answer        |
| ANSWERING | with an answer that the socket does not take whole | ANSWER_MAX_S and size  | aborted       |
| LINGERING | with the answer, where the body is not read whole  | LINGER_S               | closed        |
| IDLE      | with an answer, when no other request is there     | KEEPALIVE_S            | closed        |

Where answers that nobody has read hold too much (api/port/budget.py), the one that is ANSWERING for longest makes room.
A connection that is closed with bytes unsent has LINGER_S for them, then it is aborted.

(1) HALF_CLOSED_MAX_S once the client has closed its side; then it is closed. Whether anybody still waits for the answer
nothing tells, and who asks for long counts and goes away would keep those who stay waiting.

A pipelined request that is there whole begins WORKING at once; of one that is there in part, HEADER began with the
first byte that came behind the request before it. In READING a body has BODY_MAX_S (api/http/exchange.py).

Where a node has as many connections as it takes, the one that keeps it waiting for longest makes room: one that asks
for nothing (OPENED, IDLE), else any that is not WORKING, or that is and waits for messages: that is answered. One that
asks for nothing, but did within two seconds, comes behind one of the others that stands there for longer.
"""

from enum import IntEnum
from typing import Final

#: A request's header has to be complete this long after its first byte (or after connecting).
HEADER_MAX_S: Final = 10.0
#: A client that has closed its side gets its answer within this.
HALF_CLOSED_MAX_S: Final = 10.0
#: An idle connection is kept this long; longer than the idle time of common clients and proxies.
KEEPALIVE_S: Final = 75.0
#: After an early refusal (413, 415), how long the rest of the body is read and dropped so the client sees the answer.
LINGER_S: Final = 2.0
#: Between two reads of it, of 256 KB at most: 40 clients whose bodies were refused took all of the loop.
LINGER_PAUSE_S: Final = 0.025
#: A client may take so long to read an answer, and a second more for so many bytes of it.
ANSWER_MAX_S: Final = 30.0
ANSWER_BYTES_PER_S: Final = 16 * 1024


class Stage(IntEnum):
    """See above."""

    OPENED = 0
    HEADER = 1
    READING = 2
    WORKING = 3
    ANSWERING = 4
    LINGERING = 5
    IDLE = 6


#: To be compared with: a member that is looked up in its class costs 0.1 us in Python 3.11, ten times a request.
OPENED, HEADER, READING, WORKING, ANSWERING, LINGERING, IDLE = Stage
