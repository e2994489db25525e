"""From ready to a consumer under a lease, and what is written down of it.

In: units that are ready, and somebody who takes them. Out: a hand-over, its lease in the log within 50 ms.
lease_book.py is the rule that stops hand-overs whose leases come too late; strict.py leases before.
"""
