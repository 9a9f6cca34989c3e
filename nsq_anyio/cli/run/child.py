"""The entry point of a supervised process: ``python -m nsq_anyio.cli.run.child DESCRIPTOR run ...``."""

from __future__ import annotations

import sys

from .. import main

if __name__ == "__main__":
    main(link=int(sys.argv.pop(1)))
