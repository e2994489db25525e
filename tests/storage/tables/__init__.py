"""Tests of the tables of the catalog."""
