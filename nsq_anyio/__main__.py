"""The entry point of ``python -m nsq_anyio``, which is the same as ``nsq-anyio``."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
