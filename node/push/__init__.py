"""Webhooks: what goes to which receiver when, and what becomes of it.

In: units of topics with a target. Out: work for the push wire, outcomes for the log.
lanes.py keeps each receiver's share; feed.py hands over.
"""
