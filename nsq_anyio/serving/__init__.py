"""Listening for connections, and a small HTTP server; both know nothing of NSQ."""
