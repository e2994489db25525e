"""Webhooks: which message goes to which receiver and when, and what its outcome does.

In: ready units of topics in push mode. Out: work for the push wire, and outcomes to propose. lanes.py shares the room
for attempts among the receivers. feed.py hands units over.
"""
