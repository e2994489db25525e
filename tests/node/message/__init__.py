"""Tests of messages and topics, one by one."""
