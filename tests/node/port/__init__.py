"""Tests of what crosses between group, front and push wire."""
