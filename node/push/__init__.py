"""Webhooks: what goes to which receiver when, and what becomes of it.

In: units of topics with a target. Out: requests on connections to receivers, outcomes for the log.
lanes.py keeps each receiver's share; answer.py judges what it answered.
"""
