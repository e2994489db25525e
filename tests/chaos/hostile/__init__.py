"""Attacks by single clients."""
