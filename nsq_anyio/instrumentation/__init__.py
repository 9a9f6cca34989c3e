"""Traces and metrics; each subpackage needs an extra of its own."""
