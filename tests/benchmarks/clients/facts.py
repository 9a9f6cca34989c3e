"""Tells, as JSON, what the Python that runs it is, and what it has of what the clients need."""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
import sysconfig
from importlib.metadata import version

from nsq_anyio.version import VERSION

OPTIONAL = ("trio", "uvloop")
CODEC = "nsq_anyio_codec"


def main() -> None:
    packages = {"nsq-anyio": VERSION, "anyio": version("anyio")}
    packages |= {name: version(name) for name in OPTIONAL if importlib.util.find_spec(name) is not None}
    # Python 3.13 is the first that can be without the GIL, and that has the function.
    is_gil_enabled = getattr(sys, "_is_gil_enabled", lambda: True)
    facts = {
        "implementation": platform.python_implementation(),
        "version": platform.python_version(),
        "config_args": sysconfig.get_config_var("CONFIG_ARGS"),
        "debug": bool(sysconfig.get_config_var("Py_DEBUG")),
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "gil": is_gil_enabled(),
        "packages": packages,
        "codec": importlib.util.find_spec(CODEC) is not None,
    }
    sys.stdout.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
