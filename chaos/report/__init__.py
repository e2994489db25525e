"""What people read of a run.

In: a history and its verdicts. Out: a timeline as text, JSON and a picture; what clients saw, for the reconciliation.
timeline.py computes it once; the other timeline files only draw.
"""
