"""The side of a node that receivers of webhooks touch: names, connections, TLS, signatures, answers.

In: work of the groups of this process. Out: requests on kept connections, and what became of each.
wire.py takes work and tells of its end; answer.py judges what a receiver answered.
"""
