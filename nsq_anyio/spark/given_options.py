"""The options that a user has given, validated when a source or sink is made.

Every error has the documented name of the option, its value unless that is secret, and what is allowed.
"""

from collections.abc import Mapping
from typing import Any

from ..address import Address, nsqd_addresses
from ..errors import InvalidAddress, InvalidOption
from ..names import is_ephemeral
from .option_texts import parsed
from .options import READ_OPTIONS, WRITE_OPTIONS, ReadOptions, WriteOptions

_MPUB_FRAMING = 4
"""The bytes in an MPUB for the size of each message, and as many for their count."""

_OF_STREAMS = {
    "maxRowsPerBatch": "bound a batch read with maxRows",
    "maxBytesPerBatch": "bound a batch read with maxRows",
    "pollInterval": "leave it out",
    "shareChannel": "leave it out",
}

# Options of a sink that are Spark's own.
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Validate the options of a read.

    :param given: the texts by their names, in any case
    :raises InvalidOption: naming the option that is unknown, missing or not valid
    """
    values: dict[str, Any] = parsed(given, READ_OPTIONS, purpose="reading", elsewhere=WRITE_OPTIONS)
    for name in ("topic", "channel"):
        if name not in values:
            raise InvalidOption(f'no {name}: set it with .option("{name}", ...)')
    has_urls = "nsqd_http" in values
    options = ReadOptions(**values)
    if is_ephemeral(options.channel):
        raise InvalidOption(
            f"channel={options.channel!r} is not valid: nsqd deletes an #ephemeral channel, with the "
            "messages that wait in it, when a task disconnects; use a name without #ephemeral"
        )
    options.check()
    if options.nsqlookupds:
        if has_urls:
            raise InvalidOption("nsqdHttp has no effect with nsqlookupd: leave it out")
        return options
    if not has_urls:
        values["nsqd_http"] = tuple(map(_default_url, options.nsqds))
    elif len(options.nsqd_http) != len(options.nsqds):
        raise InvalidOption(
            f"nsqdHttp names {len(options.nsqd_http)} servers and nsqd {len(options.nsqds)}: "
            "name the HTTP address of each nsqd, in the same order"
        )
    return ReadOptions(**values)


def batch_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Validate the options of a batch read.

    :param given: as for `read_options`
    :raises InvalidOption: as `read_options`, and for an option of streams only
    """
    keys = {key.lower() for key in given}
    for name, remedy in _OF_STREAMS.items():
        if name.lower() in keys:
            raise InvalidOption(f"{name} is for streams: {remedy}")
    options = read_options(given)
    chosen = {
        "peek": options.peek,
        "spoolDir": options.spool_dir is not None,
        "drain": options.drain,
    }
    names = [name for name, is_chosen in chosen.items() if is_chosen]
    if not names:
        raise InvalidOption(
            "none of peek, spoolDir and drain is set: NSQ forgets a message once it is finished, so choose "
            "what happens to the messages that are read. peek=true gives everything back to nsqd. "
            "spoolDir, an absolute path that the driver and all executors share, stores rows before they are "
            "finished, and keeps them until you delete them. drain=true finishes messages when their rows "
            "are handed to Spark, which takes many more than limit(), first() or a failed job needs: the "
            "others are lost"
        )
    if len(names) > 1:
        raise InvalidOption(f"{' and '.join(names)} exclude each other: choose one")
    return options


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Validate the options of a write.

    :param given: the texts by their names, in any case
    :raises InvalidOption: naming the option that is unknown, missing or not valid
    """
    values: dict[str, Any] = parsed(
        given, WRITE_OPTIONS, purpose="writing", ignored=_OF_SPARK, elsewhere=READ_OPTIONS
    )
    options = WriteOptions(**values)
    options.check()
    options.producer_options()  # find conflicting options here rather than in each task
    if options.batch_bytes > options.max_body_size:
        raise InvalidOption(
            f"batchBytes={options.batch_bytes} exceeds maxBodySize={options.max_body_size}: "
            "lower it, or raise maxBodySize together with nsqd's --max-body-size"
        )
    if options.max_msg_size + 2 * _MPUB_FRAMING > options.max_body_size:
        raise InvalidOption(
            f"maxMsgSize={options.max_msg_size} exceeds maxBodySize={options.max_body_size}: "
            f"raise maxBodySize until it is at least {2 * _MPUB_FRAMING} larger"
        )
    return options


def _default_url(nsqd: str) -> str:
    """Return an nsqd's HTTP URL for its default ports: the HTTP port is one above the TCP port."""
    (address,) = nsqd_addresses(nsqd)
    if not isinstance(address, Address):
        raise InvalidOption(f"nsqd={nsqd!r} is a unix socket: set nsqdHttp to its HTTP address")
    try:
        return f"http://{Address(address.host, address.port + 1)}"
    except InvalidAddress:
        raise InvalidOption(f"nsqd={nsqd!r} has no next port: set nsqdHttp to its HTTP address") from None
