"""Tests of connections, requests and answers."""
