"""Decisions: pure functions and state machines, which take the time and the random source as arguments."""
