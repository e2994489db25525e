"""Tests of what is ready to be handed over."""
