"""Tests of the files of nodes, read offline."""
