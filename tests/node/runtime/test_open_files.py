"""The limit on open files."""

import resource

from node.runtime.open_files import raise_descriptors


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
