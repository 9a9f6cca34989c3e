"""NSQ client on structured concurrency: consume and publish natively on Trio and asyncio."""
