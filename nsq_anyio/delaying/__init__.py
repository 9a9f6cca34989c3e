"""Delays of any length: a service that keeps messages in a file until their time."""
