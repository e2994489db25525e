"""Tests of the way from requests to entries."""
