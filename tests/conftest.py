"""Shared pytest options."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--golden` rewrites golden files instead of comparing with them."""
    parser.addoption("--golden", action="store_true", help="rewrite golden files")
