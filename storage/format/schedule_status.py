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
ON_CONFLICT: Final = ("reject", "keep")
"""The values of a message's field `on_conflict`. In commands index 0 stands for the first, which leads to CONFLICT.
Index 1 leads to KEPT."""
