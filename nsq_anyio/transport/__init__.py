"""Byte streams to nsqd."""
