"""The `tags` of a pull, which choose the messages that a consumer takes.

```
filter = "" | "*" | group { "||" group }        any group
group  = tag { "&&" tag }                       all tags of it
tag    = bare | '"' text '"' | "'" text "'"
```

So `&&` binds tighter than `||`, as usual: `eu && vip || us` takes messages with (eu and vip) or us. There are no
parentheses, because every filter can be written as groups. A bare tag holds no white space, quotes, parentheses, `|` or
`&`. Any other tag is put in quotes.

So `eu us` is no tag with a space. It is a forgotten operator, and is refused. A filter that silently matches nothing
would look like an empty queue.
"""

import re
from functools import lru_cache
from typing import Final

from api.contract.checker import TAGS_MAX, Fault, read_tags, wrong_type

Groups = tuple[tuple[str, ...], ...]

ALL: Final = "*"
_FILTER_CHARACTERS_MAX: Final = 4096
_TOKEN = re.compile(
    r"""(?P<or>\|\|)|(?P<and>&&)|"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'()|&]+)""",
)


def read_tag_filter(value: object) -> Groups:
    """Return the groups of a filter. () takes every message. A fault names the character, counted from 1."""
    if type(value) is not str:
        raise wrong_type('a string such as "eu || us"', value)
    if len(value) > _FILTER_CHARACTERS_MAX:
        raise Fault("invalid-field", f"a filter is at most {_FILTER_CHARACTERS_MAX} characters, got {len(value)}")
    return _groups(value)


@lru_cache(maxsize=1024)
def _groups(text: str) -> Groups:
    if text.strip() in ("", ALL):
        return ()
    groups: list[list[str]] = [[]]
    place, after_tag, count = 0, False, 0
    while (place := _skip_space(text, place)) < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise _at(place, _why_no_token(text[place]))
        kind = str(match.lastgroup)
        if (kind in ("or", "and")) is not after_tag:
            raise _at(place, _why_not_here(match[0], after_tag))
        if kind == "or":
            groups.append([])
        elif kind != "and":
            count += 1
            groups[-1].append(_tag(match[kind], place, kind, count))
        after_tag = not after_tag
        place = match.end()
    if not after_tag:
        raise _at(len(text), "a tag is missing at the end")
    return tuple(dict.fromkeys(tuple(dict.fromkeys(group)) for group in groups))


def _tag(tag: str, place: int, kind: str, count: int) -> str:
    if kind == "bare" and tag == ALL:
        raise _at(place, '"*" takes every message only where it stands alone (a tag of that name: in quotes)')
    if count > TAGS_MAX:
        raise _at(place, f"a filter holds at most {TAGS_MAX} tags")
    try:
        return read_tags([tag])[0]
    except Fault as fault:
        raise _at(place, fault.detail) from None


def _skip_space(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _why_no_token(character: str) -> str:
    if character in "()":
        return 'there are no parentheses; write "(a || b) && c" as "a && c || b && c"'
    if character in "\"'":
        return "this quote is not closed"
    return f'"{character}" is no operator; write || for any, && for all, or put a tag that holds it in quotes'


def _why_not_here(token: str, after_tag: bool) -> str:
    if after_tag:
        return f"{token[:40]} follows a tag without || or && between them (a tag with spaces: in quotes)"
    return f"{token} needs a tag before it"


def _at(place: int, why: str) -> Fault:
    return Fault("invalid-field", f"at character {place + 1}: {why}")
