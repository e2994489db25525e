"""Connections, requests, routing and answers, on aiohttp's low-level server.

In: sockets of clients. Out: an exchange for each request, and its answer as one write.
stage.py has the stages of a connection and their deadlines. listener.py holds all connections. At the bound on
connections it chooses the one that is closed to admit another.
"""
