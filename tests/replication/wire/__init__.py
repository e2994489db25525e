"""Tests of frames, handshakes and connections."""
