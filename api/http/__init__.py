"""Connections, requests, routing and answers, on aiohttp's low-level server.

In: sockets of clients. Out: an exchange for each request, and its answer as one write.
Stages and their deadlines are in stage.py. The connection that makes room is chosen in listener.py.
"""
