"""The programs of examples/ against real clusters. (tests/examples.py is about how many examples a test draws.)"""
