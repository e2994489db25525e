"""What became of each message that was handed in: one number a row, from where it is applied to the answer.

The one home of these numbers: `replication/apply/message/schedule.py` writes them, the API reads them, nothing
translates.
"""

from typing import Final

NEW: Final = 0
"""It was taken."""
REPLAYED: Final = 1
"""Its key was taken by the same request: the first answer again."""
CONFLICT: Final = 2
"""Its key is taken, and the request says `reject`."""
KEPT: Final = 3
"""Its key is taken, and the request says `keep`: the holder stays."""
FAILED: Final = 4
"""It was not proposed, or that failed: a problem says why. Never written by apply."""
ON_CONFLICT: Final = ("reject", "keep")
"""What a message whose key is taken wishes, by number: CONFLICT or KEPT."""
