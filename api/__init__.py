"""The HTTP API of a node: HTTP in, a service port out.

In: sockets of clients. Out: calls of the port, which the node answers (`api/port`), and answers to the clients.
serve.py joins routes and server. A request goes through `http`, `read` and `routes`, in that order.
"""
