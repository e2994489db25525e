"""Ready units go to consumers under a lease, and the delivery log keeps what this node did.

In: ready units, and the pulls and pushes that take them. Out: hand-overs. In fast mode all hand-overs without a
committed Lease lie within 50 ms of each other, because lease_book.py stops hand-overs while commits are slower. In
strict mode the lease is written before the hand-over (strict.py).
"""
