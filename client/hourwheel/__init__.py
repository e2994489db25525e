"""For programs that use Hourwheel: they send requests to it and receive webhooks from it.

In: addresses, answers of nodes, requests of receivers. Out: typed errors, the next address, a verdict on a signature.
It imports nothing of ours and only the standard library, so that it can be shipped alone.
"""
