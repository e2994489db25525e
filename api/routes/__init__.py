"""One file for each resource of the contract.

In: an exchange, its target found. Out: an answer; refusals are raised as `Problem`.
A handler reads, asks the port once, and renders.
"""
