"""What every client of the HTTP API needs: addresses, typed errors, what may be sent again.

In: addresses, what came of a request, the time. Out: typed errors, the next address, whether to send again and when.
It does no I/O and has no clock and no chance of its own: who uses it gives those in.
"""
