"""Tag filters: masks pass over what cannot match, the tags of the record decide."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from storage.format.array import U64
from storage.format.predicate import TagFilter, tags_mask

NAMES = ["eu", "us", "vip", "new", "tag-151", "tag-281"]
TAGS = st.sets(st.sampled_from(NAMES), max_size=4)
GROUPS = st.lists(TAGS, min_size=1, max_size=3)


def filter_of(*groups: list[str]) -> TagFilter:
    """Any of these groups."""
    made = TagFilter.of(groups)
    assert made is not None
    return made


def masks(*tags: str) -> U64:
    """The mask of one unit."""
    return np.array([tags_mask(tag.encode() for tag in tags)], np.uint64)


@given(GROUPS, TAGS)
def test_any_of_the_groups_all_tags_of_one(groups: list[set[str]], tags: set[str]) -> None:
    """As set algebra says; and what matches is never passed over by its mask."""
    wanted = TagFilter.of(groups)
    assert wanted is not None
    assert wanted.matches(tags) == any(group <= tags for group in groups)
    if wanted.matches(tags):
        assert wanted.may_match(masks(*tags)).all()
    assert wanted == TagFilter.of(reversed(groups))
    assert hash(wanted) == hash(TagFilter.of(reversed(groups)))


def test_no_group_is_no_filter() -> None:
    """`PullIn.tags` of nothing takes every message."""
    assert TagFilter.of(()) is None
