"""The reconciliation: Spark over what nodes wrote, every delivery judged, and a report.

In: directories or exports of all nodes, and what receivers kept. Out: tables, a page, messages sent again.
files -> spark -> judge -> output, report.
"""
