"""Both codecs: the one in Python, and the compiled one where nsq-anyio-codec is installed."""

from importlib.util import find_spec

import pytest

from nsq_anyio.protocol.codec import Codec, MakeDecoder, chosen

needs_codec = pytest.mark.skipif(
    find_spec("nsq_anyio_codec") is None, reason="nsq-anyio-codec is not installed"
)


@pytest.fixture(scope="module", params=["python", pytest.param("compiled", marks=needs_codec)])
def codec(request: pytest.FixtureRequest) -> Codec:
    """Run each test that asks for it with both codecs."""
    return chosen(request.param)


@pytest.fixture(scope="module")
def frame_decoder(codec: Codec) -> MakeDecoder:
    """Run each test that asks for it with both decoders."""
    return codec.frame_decoder
