"""The result of each message in a schedule request: one number a row, from apply to the answer.

These numbers stand only here. `replication/apply/message/schedule.py` writes them, the API reads them, and no code
translates them.
"""

from typing import Final

NEW: Final = 0
"""The message was taken."""
REPLAYED: Final = 1
"""The same request took the key before. It gets the first answer again."""
CONFLICT: Final = 2
"""The key is taken, and the request says `reject`."""
KEPT: Final = 3
"""The key is taken, and the request says `keep`: the holder stays."""
FAILED: Final = 4
"""The message was not proposed, or that failed. A problem says why. Apply never writes it."""
ON_CONFLICT: Final = ("reject", "keep")
"""The wish of a message whose key is taken, by number: CONFLICT or KEPT."""
