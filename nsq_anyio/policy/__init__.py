"""Decisions as pure functions and state machines: time and randomness are arguments."""
