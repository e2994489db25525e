"""The texts that are held to the rule of words, and the rule itself on texts that break it."""

from tests.tidy import words
from tests.tidy.words import Glossary, faults, sentences, word_count

LONG = "This sentence has " + "very " * 22 + "many words."
PAGE = """
| word | meaning |
|---|---|
| message | what a client hands in |

## Plain words in names

of the old list

## Words that our texts do not use

| not | but |
|---|---|
| reign, realm | term |
"""


def said(source: str, file: str = "node/list.py") -> list[str]:
    """The faults of one file, as they are printed."""
    return [fault.message for fault in faults({file: source}, Glossary(PAGE))]


def test_our_texts_hold_to_the_rule() -> None:
    """No sentence is over 25 words and no word is unknown, in all that is held to the rule."""
    assert faults(words.texts(words.held_to_it), words.glossary()) == []


def test_the_list_of_what_is_not_held_to_it_names_what_is_there() -> None:
    """Each folder or page that is left out exists and still breaks the rule: it is struck out once it does not."""
    there = words.texts(lambda file: file.startswith(words.NOT_YET))
    broken = {fault.file for fault in faults(there, words.glossary())}
    assert [each for each in words.NOT_YET if not any(file.startswith(each) for file in broken)] == []


def test_sentences() -> None:
    """Code is one word, a list's items stand alone, and neither drawings nor code blocks count."""
    text = "One `a. B c` two. Three (four). `five` six.\n- Seven\n- eight\n\n    drawn. Never\n\n```\nnone\n```\n"
    assert list(sentences(text)) == ["One Code two.", "Three (four).", "Code six.", "Seven", "eight"]
    assert word_count("One - two 3 four.") == 3


def test_a_long_sentence_is_told_in_docstrings_comments_pages_and_cells() -> None:
    """A sentence of 26 words is a fault wherever it stands, one of 25 is none."""
    count = word_count(LONG)
    assert count == 27
    short = LONG.replace("very very very ", "very ")
    for source, file in (
        (f'"""{LONG}"""', "node/list.py"),
        (f'"""A list."""\n\nX = 1  # {LONG}\n', "node/list.py"),
        (f"# Page\n\n{LONG}\n", "docs/page.md"),
        (f"| a | b |\n|---|---|\n| {LONG} | c |\n", "docs/page.md"),
    ):
        assert [each for each in said(source, file) if "27 words" in each] != [], source
        assert [each for each in said(source.replace(LONG, short), file) if " words: " in each] == [], source


def test_words_and_names_that_the_glossary_does_not_allow() -> None:
    """A forbidden word says what stands in its place; a class's word must stand in the glossary, in either list."""
    assert said('"""A realm of the list."""\n\n\nclass OldMessage:\n    """One."""\n', "of/list.py") == [
        "'realm': say term"
    ]
    assert said('"""A list."""\n\n\nclass _Outlet:\n    """One."""\n', "of/list.py") == [
        "'Outlet' of _Outlet is not in docs/glossary.md"
    ]
    assert said('"""Whether it is old."""\n', "of/list.py") == [
        "'Whether' begins a docstring: begin with the thing or with a verb"
    ]
    assert said('"""A list."""\n', "of/pledge.py") == ["'pledge' of of/pledge is not in docs/glossary.md"]
