"""Decides which node may lead and for how long: small machines that are given the time.

In: heartbeats and echoes with their times. Out: if a node may ask for votes or give one, if a leader may still act, and
the median of the other nodes' clocks. Nothing here sends or writes.
"""
