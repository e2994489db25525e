"""Tests of the rows of the contract."""
