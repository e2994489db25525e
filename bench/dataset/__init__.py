"""Data directories of a cluster, made by plan, with every class of outcome planted in them.

In: a seed and how many of each. Out: directories as nodes leave them, and the truth about each message.
story.py tells one message's story, stories.py deals them out, files.py writes them.
"""
