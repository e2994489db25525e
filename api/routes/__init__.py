"""Routes and handlers: one file for each resource of the contract.

In: an exchange whose route is found. Out: an answer. Refusals are raised as `Problem`.
A handler reads the request, calls the port once, and renders the answer.
"""
