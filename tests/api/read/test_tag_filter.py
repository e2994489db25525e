"""The filter of a pull: its grammar, and where it says it went wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.contract.checker import Fault
from api.read.tag_filter import Groups, read_tag_filter


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("", ()),
        ("  ", ()),
        ("*", ()),
        (" * ", ()),
        ("eu", (("eu",),)),
        ("eu || us", (("eu",), ("us",))),
        ("eu||us", (("eu",), ("us",))),
        ("a && b", (("a", "b"),)),
        ("a && b || c && d && e || f", (("a", "b"), ("c", "d", "e"), ("f",))),
        (" a\t&&\nb ", (("a", "b"),)),
        ("a || a && a", (("a",),)),
        ('"big customer" || \'it is "so"\'', (("big customer",), ('it is "so"',))),
        ('"a||b" && "*"', (("a||b", "*"),)),
        ("ü:1/2-3_4.5,6", (("ü:1/2-3_4.5,6",),)),
        ("x" * 64, (("x" * 64,),)),
        (" || ".join(f"t{n}" for n in range(16)), tuple((f"t{n}",) for n in range(16))),
    ],
)
def test_groups(text: str, groups: Groups) -> None:
    """Any of the groups, all tags of it; nothing and * take every message."""
    assert read_tag_filter(text) == groups


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("eu us", "at character 4: us follows a tag without || or &&"),
        ("eu |us", 'at character 4: "|" is no operator; write || for any'),
        ("a|b", 'at character 2: "|" is no operator'),
        ("a & b", 'at character 3: "&" is no operator'),
        ("|| a", "at character 1: || needs a tag before it"),
        ("a || && b", "at character 6: && needs a tag before it"),
        ("a ||", "at character 5: a tag is missing at the end"),
        ("(a || b) && c", "at character 1: there are no parentheses"),
        ("a || *", 'at character 6: "\\*" takes every message only where it stands alone'),
        ("* || a", "at character 1"),
        ('a || "b', "at character 6: this quote is not closed"),
        ("a || ''", "at character 6: a tag is 1 to 64 bytes of UTF-8, got 0"),
        ("x" * 65, "at character 1: a tag is 1 to 64 bytes of UTF-8, got 65"),
        ("'a\n'", "at character 1: a tag holds no control characters"),
        (" || ".join(f"t{n}" for n in range(17)), "at character 103: a filter holds at most 16 tags"),
        ("x" * 4097, "4096 characters, got 4097"),
        (["eu"], 'expected a string such as "eu .. us", got an array'),
        (None, "got null"),
    ],
)
def test_faults(text: object, says: str) -> None:
    """The character, counted from 1, and what to write instead."""
    with pytest.raises(Fault, match=says.replace("||", r"\|\|").replace('"|"', r'"\|"').replace("(", r"\(")) as caught:
        read_tag_filter(text)
    assert caught.value.code == "invalid-field"


_TAG = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=8).filter(
    lambda tag: len(tag.encode()) <= 64 and not ('"' in tag and "'" in tag)
)


@given(st.lists(st.lists(_TAG, min_size=1, max_size=3), min_size=1, max_size=5))
def test_any_tag_can_be_asked_for(groups: list[list[str]]) -> None:
    """In quotes every tag reads back, whatever is in it."""
    text = " || ".join("&&".join(f"'{tag}'" if '"' in tag else f'"{tag}"' for tag in group) for group in groups)
    assert [set(group) for group in read_tag_filter(text)] == [
        set(group) for group in dict.fromkeys(tuple(dict.fromkeys(group)) for group in groups)
    ]


@given(st.text(alphabet="ab |&\"'()* ", max_size=12))
def test_any_text_is_a_filter_or_a_refusal(text: str) -> None:
    """No text gets another exception, and no group is empty."""
    groups: Groups = ()
    try:
        groups = read_tag_filter(text)
    except Fault as fault:
        groups = ((fault.detail,),)
    assert all(groups)
