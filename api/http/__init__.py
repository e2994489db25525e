"""Connections, requests, routing and answers, on aiohttp's low-level server.

In: sockets of clients. Out: an exchange for each request, and its answer as one write.
The stages of a connection and their deadlines are in stage.py. The keeper of all connections is in listener.py. At the
bound on connections it chooses the one that is closed to admit another.
"""
