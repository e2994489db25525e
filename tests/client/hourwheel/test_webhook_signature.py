"""Signatures as the Standard Webhooks specification has them."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourwheel.webhook_signature import TOLERANCE_S, BadSecret, check, read_secret, sign

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
AT = 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def headers(**changed: str) -> dict[str, str]:
    """Those of the specification's example."""
    values = {"id": ID, "timestamp": str(AT), "signature": SIGNATURE} | changed
    return {f"webhook-{name}": value for name, value in values.items()}


def test_example_of_the_specification() -> None:
    """The signature that the specification prints for its example."""
    assert sign(read_secret(SECRET), ID, str(AT), BODY) == SIGNATURE
    assert check(read_secret(SECRET), headers(), BODY, AT) == "ok"


def test_one_of_several_signatures_is_enough() -> None:
    """A sender that changes its secret signs with both."""
    assert check(read_secret(SECRET), headers(signature=f"v1,AAAA v2,x {SIGNATURE}"), BODY, AT) == "ok"


@given(body=st.binary(max_size=64), place=st.integers(0, 63))
def test_another_body_is_wrong(body: bytes, place: int) -> None:
    """Any other byte anywhere."""
    key = read_secret(SECRET)
    signed = headers(signature=sign(key, ID, str(AT), body))
    assert check(key, signed, body, AT) == "ok"
    assert check(key, signed, body + b"x", AT) == "wrong"
    if body:
        place %= len(body)
        assert check(key, signed, body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :], AT) == "wrong"


@pytest.mark.parametrize(
    ("given_headers", "now_s", "found"),
    [
        ({}, AT, "missing"),
        (headers(signature=""), AT, "missing"),
        (headers(signature="v1,nonsense\xff"), AT, "wrong"),
        (headers(id="other"), AT, "wrong"),
        (headers(timestamp=str(AT + 1)), AT, "wrong"),
        (headers(timestamp="soon"), AT, "stale"),
        (headers(timestamp="9" * 400), AT, "stale"),
        (headers(), AT + TOLERANCE_S + 1, "stale"),
        (headers(), AT - TOLERANCE_S - 1, "stale"),
    ],
)
def test_what_is_not_signed_now_by_us(given_headers: dict[str, str], now_s: int, found: str) -> None:
    """Each cause has its word."""
    assert check(read_secret(SECRET), given_headers, BODY, now_s) == found


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_???", SECRET.removeprefix("whsec_"), "whsec_ä"])
def test_secrets_that_are_none(text: str) -> None:
    """Prefix and base64 are needed."""
    with pytest.raises(BadSecret):
        read_secret(text)


def test_secret_is_decoded() -> None:
    """The key is the decoded base64, not its text."""
    assert read_secret("whsec_" + base64.b64encode(b"k" * 24).decode()) == b"k" * 24
