"""Tests of each resource, over a real socket."""
