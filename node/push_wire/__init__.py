"""What receivers of webhooks touch: names, connections, TLS, signatures, and what a receiver answered.

In: work of the groups of this process. Out: requests on kept connections, and what became of each.
wire.py takes work and tells of its end; answer.py judges what a receiver answered.
"""
