"""Data directories of a cluster, made by plan, with every class of outcome planted in them.

In: a seed and how many of each. Out: directories as nodes leave them, and the truth about each message.
One message's records are planned in story.py. The planted stories are in stories.py, and files.py writes them.
"""
