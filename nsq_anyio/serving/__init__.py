"""Listeners, and a small HTTP server. Neither knows anything of NSQ."""
