"""Addresses as users write them, and what is wrong with those that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.provisional import domains

from hourwheel.core.addresses import Address, BadAddress, parse_address, parse_addresses


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://a:7400", "http://a:7400"),
        (" a:7400/ ", "http://a:7400"),
        ("http://10.0.0.1", "http://10.0.0.1:80"),
        ("[::1]:7400", "http://[::1]:7400"),
        ("HTTP://Node-1:7400", "http://node-1:7400"),
    ],
)
def test_an_address(text: str, url: str) -> None:
    """With or without a scheme, a port, a slash."""
    assert str(parse_address(text)) == url


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("https://a:7400", "the scheme is 'https'"),
        ("http://:7400", "names no host"),
        ("", "names no host"),
        ("http://u:p@a:7400", "user or password"),
        ("a:7400/v1", "behind the port"),
        ("a:7400?x", "behind the port"),
        ("a:70000", "Port out of range"),
        ("a:x", "Port could not be cast"),
        ("[::1:7400", "not an address"),
        ("a:0", "port 0"),
    ],
)
def test_what_is_wrong_is_named(text: str, wrong: str) -> None:
    """With the text that was given."""
    with pytest.raises(BadAddress, match=wrong) as refused:
        parse_address(text)
    assert repr(text) in str(refused.value)


def test_several() -> None:
    """With commas, or as several texts; one that comes again is kept once, in its first place."""
    assert parse_addresses("a:1, b:2,http://a:1") == (Address("a", 1), Address("b", 2))
    assert parse_addresses(["b:2", "a:1,c:3"]) == (Address("b", 2), Address("a", 1), Address("c", 3))


@pytest.mark.parametrize(("texts", "wrong"), [("", "no address"), ([], "no address"), ("a:1,,b:2", "comma without")])
def test_none_and_a_comma_too_many(texts: str | list[str], wrong: str) -> None:
    """Neither is passed over in silence."""
    with pytest.raises(BadAddress, match=wrong):
        parse_addresses(texts)


HOSTS = domains() | st.ip_addresses().map(str)


@given(st.lists(st.builds(Address, HOSTS.map(str.lower), st.integers(1, 65_535)), min_size=1))
def test_what_is_written_is_read_again(addresses: list[Address]) -> None:
    """Any hosts and ports, in any number."""
    assert parse_addresses(",".join(map(str, addresses))) == tuple(dict.fromkeys(addresses))


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    """No other exception gets out."""
    try:
        assert parse_address(parse_address(text).url) == parse_address(text)
    except BadAddress:
        return
