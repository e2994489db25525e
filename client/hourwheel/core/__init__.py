"""For every client of the HTTP API: addresses, typed errors, and the rules for sending again.

In: addresses, what came of a request, the time. Out: typed errors, the next address, whether to send again and when.
It does no I/O and has no clock and no chance of its own: who uses it gives those in.
"""
