"""Histories planted for the tests of checkers and reports."""
