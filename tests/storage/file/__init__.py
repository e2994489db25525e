"""Tests of files that grow by appending."""
