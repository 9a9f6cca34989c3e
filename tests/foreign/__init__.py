"""The test suites of other NSQ clients, run against the embedded servers and against the real ones."""
