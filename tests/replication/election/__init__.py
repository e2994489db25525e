"""Tests of who may lead, and for how long."""
