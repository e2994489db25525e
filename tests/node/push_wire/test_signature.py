"""Signatures against the specification's own example and an implementation written from its text."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.push.signing_key import signing_key
from node.push_wire.signature import sign


def independent(secret: str, id: str, timestamp: str, body: bytes) -> str:
    """HMAC-SHA256 over `id.timestamp.body`, the other way round than the code: text built first, hash object fed."""
    mac = hmac.new(base64.b64decode(secret.split("_", 1)[1]), digestmod=hashlib.sha256)
    for part in (id.encode(), b".", timestamp.encode(), b".", body):
        mac.update(part)
    return f"v1,{base64.b64encode(mac.digest()).decode()}"


def test_the_example_of_the_specification() -> None:
    """The values that the reference libraries test themselves with."""
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signature = sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.binary(min_size=24, max_size=64), st.integers(0, 2**40), st.binary(max_size=200))
def test_signatures_are_what_the_specification_says(key: bytes, timestamp_s: int, body: bytes) -> None:
    """Any key, any time, any bytes."""
    secret = "whsec_" + base64.b64encode(key).decode()
    expected = independent(secret, "1GZZ", str(timestamp_s), body)
    assert sign(signing_key(secret), "1GZZ", timestamp_s, body) == expected


@pytest.mark.parametrize("secret", ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_a", "whsec_ab!c", "WHSEC_AAAA"])
def test_what_is_no_secret_is_refused(secret: str) -> None:
    """The prefix and proper base64 are asked for."""
    with pytest.raises(ValueError, match="whsec_"):
        signing_key(secret)
