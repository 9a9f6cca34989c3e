"""The programs that are measured: each does one `Task` with one client, and prints how long it took.

They run in processes of their own, some in environments where only their client is installed, so what they
share (`task`, `meter`) needs nothing but the standard library.
"""
