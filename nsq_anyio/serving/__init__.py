"""Listeners and a small HTTP server that know nothing about NSQ; on top, the HTTP rules of its programs."""
