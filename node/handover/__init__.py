"""Ready units go to consumers under a lease, and the delivery log keeps what this node did.

In: ready units, and consumers that take them. Out: hand-overs, whose leases are in the log within 50 ms.
lease_book.py stops hand-overs while their leases come too late. strict.py leases before it hands over.
"""
