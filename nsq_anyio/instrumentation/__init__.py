"""Traces and metrics. Each subpackage needs its own extra."""
