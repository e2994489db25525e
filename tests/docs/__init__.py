"""Tests of what the pages say."""
