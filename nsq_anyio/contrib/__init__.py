"""NSQ for other frameworks; each subpackage needs an extra of its own."""
