"""Decides which node may lead and for how long. Each class is given the time and reads no clock.

In: heartbeats and echoes with their times. Out: if a node may ask for votes or give one, if a leader may still act, and
the median of the nodes' clocks. Nothing here sends or writes.
"""
