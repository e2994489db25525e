"""Shared pytest options, and the profiles of property tests."""

import pytest

from tests.examples import register_profiles

register_profiles()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--golden` rewrites golden files instead of comparing with them."""
    parser.addoption("--golden", action="store_true", help="rewrite golden files")
