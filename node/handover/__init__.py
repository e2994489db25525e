"""From ready to a consumer under a lease, and what is written down of it.

In: ready units, and consumers that take them. Out: hand-overs, whose leases are in the log within 50 ms.
lease_book.py stops hand-overs while their leases come too late. strict.py leases before it hands over.
"""
