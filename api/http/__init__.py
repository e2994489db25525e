"""Connections, requests, routing and answers, on aiohttp's low-level server.

In: sockets of clients. Out: an exchange for each request, and its answer as one write. The table of stages and their
deadlines is stage.py. The choice of the connection that makes room is listener.py.
"""
