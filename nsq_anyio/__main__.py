"""``python -m nsq_anyio`` is ``nsq-anyio``."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
