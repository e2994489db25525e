"""The side of a node that receivers of webhooks touch: names, connections, TLS, signatures, answers.

In: attempts of the groups of this process. Out: requests on kept connections, and the outcome of each attempt. The file
wire.py takes attempts and reports their outcomes. The file answer.py decides what an answer of a receiver means.
"""
