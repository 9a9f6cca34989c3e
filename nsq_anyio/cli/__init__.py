"""The ``nsq-anyio`` command; it needs the extra ``cli``.

Each command is a package, or `completion`. These modules run commands, or are shared by several:

::

    main  lazy_group               the list of commands, which imports a command when it is called
    signals  streams  ending       signals during imports; standard streams; exit codes and errors
    event_loop  backend            the event loop of a command, with its signals
    in_thread                      blocking work of a command without an event loop
    command  config_file           the flags of all commands: Go's spelling, the environment, ``--config``
    toml_file                      TOML files with flags
    logs  flag_names               the log; the library's errors, with flags in place of options
    flags                          the flags that several commands share
    clients  reach  http_address   consumers and producers made from flags; checks that servers are reachable
    output  display  timings       bytes to shared descriptors; tables and progress; request times
"""

from __future__ import annotations

import sys

from .signals import end_at_signals

__all__ = ["main"]

_EXTRA = frozenset({"click", "rich"})


def main(link: int | None = None) -> None:
    """Run the command line of this process and exit.

    :param link: the file descriptor of the link to a supervisor, if ``nsq-anyio run`` started this process
    """
    end_at_signals(sys.argv[1:])
    # httpx imports its own command line, which takes longer than all other imports of a command. This entry
    # makes that import fail, and httpx works without it.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    try:
        from .main import cli
        from .streams import prepare_streams

        prepare_streams()
        cli(prog_name="nsq-anyio", obj=link)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        sys.exit(f"nsq-anyio: {missing} is not installed: pip install 'nsq-anyio[cli]'")
