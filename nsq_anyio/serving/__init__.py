"""Listeners, and a small HTTP server. Neither knows anything about NSQ."""
