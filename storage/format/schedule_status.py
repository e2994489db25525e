"""The result of each message in a schedule request, as a number. Apply sets it, and the API makes the answer from it.

These numbers stand only here. `replication/apply/message/schedule.py` writes them, the API reads them, and no code
translates them.
"""

from typing import Final

NEW: Final = 0
"""The message was stored."""
REPLAYED: Final = 1
"""A request with the same key and fingerprint was stored before. This one gets the same answer, and stores nothing."""
CONFLICT: Final = 2
"""Another message has the key, and the request says `reject`: nothing is stored, and the answer is a problem."""
KEPT: Final = 3
"""Another message has the key, and the request says `keep`: that message stays, and the answer names it."""
FAILED: Final = 4
"""The message was not proposed, or its proposal failed. A problem says why. Apply never sets this number."""
REPLACED: Final = 5
"""Another message had the key, and the request says `replace`: that message is cancelled, and this one was stored."""
EXTENDED: Final = 6
"""Another message has the key, and the request says `extend`: that message has another due time now. Nothing else was
stored, and the answer names that message."""
OUTCOMES: Final = {NEW: "created", REPLAYED: "replayed", KEPT: "kept", REPLACED: "replaced", EXTENDED: "extended"}
"""The words of answers. A line of a batch leaves `created` out."""
ON_CONFLICT: Final = ("reject", "keep", "replace", "extend")
"""The values of a message's field `on_conflict`. Commands name them by index. The first leads to CONFLICT, the second
to KEPT, the third to REPLACED, the last to EXTENDED."""
REJECT: Final = 0
KEEP: Final = 1
REPLACE: Final = 2
EXTEND: Final = 3
SUPERSEDES: Final = frozenset((REPLACE, EXTEND))
"""Those that change the holder of the key. They stand in commands of their own
(replication/command/supersede.py)."""
CHANGING: Final = frozenset(ON_CONFLICT[rule] for rule in SUPERSEDES)
"""The same as words."""
