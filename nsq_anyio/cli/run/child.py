"""``python -m nsq_anyio.cli.run.child DESCRIPTOR run ...``: a child process of the supervisor."""

from __future__ import annotations

import sys

from .. import main

if __name__ == "__main__":
    main(link=int(sys.argv.pop(1)))
