"""Integrations with other frameworks; each subpackage needs its own extra."""
