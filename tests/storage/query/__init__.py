"""Tests of reads over many hours."""
