"""The HTTP API of a node, from the sockets of clients to the service port.

In: sockets of clients. Out: calls of the port, which the node answers (`api/port`), and answers to the clients.
serve.py joins routes and server. A request goes through `http`, `read` and `routes`, in that order.
"""
