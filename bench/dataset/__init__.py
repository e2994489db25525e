"""Data directories of a cluster, made by plan, with every class of outcome planted in them.

In: a seed and how many of each. Out: directories as nodes leave them, and the truth about each message.
The file planted_case.py plans one message's records. planted_cases.py has the planted cases, files.py writes them.
"""
