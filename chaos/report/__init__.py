"""The reports of a run for people.

In: a history and its verdicts. Out: a timeline as text, JSON and a picture, and the clients' records for the
reconciliation. timeline.py computes the timeline once. The other timeline files only draw it.
"""
