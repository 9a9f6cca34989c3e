"""The NSQ V2 protocol as bytes and states: no I/O, no clock, no randomness."""
