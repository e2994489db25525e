"""Connections, requests, routing and answers; on aiohttp's low-level server.

In: sockets of clients. Out: an exchange for each request, and its answer as one write.
stage.py is the table of states and deadlines; listener.py decides who makes room where there is none.
"""
