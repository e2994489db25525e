"""The limit on open files."""

import resource

import pytest

from node.runtime.open_files import OPEN_MAX, raise_descriptors


def test_the_limit_becomes_what_the_system_allows() -> None:
    """Raised from below, and left alone the second time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        limit = raise_descriptors()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        assert limit == raise_descriptors() > 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("soft", [256, 20_000])
def test_macos_refuses_a_soft_limit_without_end(monkeypatch: pytest.MonkeyPatch, soft: int) -> None:
    """Its hard limit is infinite, and it takes OPEN_MAX. One that is higher already stays."""
    took: list[int] = []

    def refuse(_: int, limits: tuple[int, int]) -> None:
        if limits[0] == resource.RLIM_INFINITY:
            raise ValueError("current limit exceeds maximum limit")
        took.append(limits[0])

    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_descriptors() == max(soft, OPEN_MAX) == took[0]
