"""The words of our texts: sentences of at most 25 words, and only names that docs/glossary.md knows.

`python -m tests.tidy.words [folder ...]` prints what breaks the rule, one line each, and exits 1 if anything does.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tests.tidy.tracked import ROOT, tracked

GLOSSARY = ROOT / "docs" / "glossary.md"
SENTENCE_WORDS_MAX = 25
#: Folders and pages whose texts are not held to the rule yet. The list may only shrink.
NOT_YET = ("reconcile/", "tests/")
#: What happened stays as it was told.
HISTORY = ("CHANGELOG.md",)

_CODE = re.compile(r"``.+?``|`[^`\n]*`")
_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?=[\"'(\[*]*[A-Z0-9`_])")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+", re.MULTILINE)
#: A docstring that begins with one of these hides its subject.
_OPENING = re.compile(r"(?:What|Whether|Who|Whom|Nobody)\b")
_NAME = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+")


class Text(NamedTuple):
    """One docstring, comment, table cell or paragraph, and the line that it begins in."""

    file: str
    line: int
    words: str
    opens: bool = False  # a docstring, whose first word counts


class Fault(NamedTuple):
    """One sentence that is too long, or one word that the glossary does not allow."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text. Code in backticks is one word; an item of a list or a drawing ends a sentence."""
    text = _LINK.sub(r"\1", _CODE.sub("Code", _FENCE.sub("", text)))
    for block in re.split(r"\n\s*\n", _ITEM.sub("\n\n", text)):
        lines = [line for line in block.splitlines() if not _drawn(line)]
        yield from (each for each in _END.split(" ".join(" ".join(lines).split())) if each)


def _drawn(line: str) -> bool:
    """Whether a line is part of a drawing or of an example, not of a sentence."""
    return line.startswith(("    ", "|")) or any(mark in line for mark in ("--->", "-->", "<--", "+--", "|  ", ">>>"))


def word_count(sentence: str) -> int:
    """How many words a sentence has. Marks and bare numbers between words are none."""
    return sum(any(letter.isalpha() for letter in word) for word in sentence.split())


def texts_of_python(file: str, source: str) -> Iterator[Text]:
    """The docstrings and comments of a Python file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            said = ast.get_docstring(node)
            if said:
                yield Text(file, node.body[0].lineno, said, opens=True)
    block: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start != (block[-1].start[0] + 1, block[-1].start[1]):
            yield _joined(file, block)
            block = []
        block.append(token)
    if block:
        yield _joined(file, block)


def _joined(file: str, block: list[tokenize.TokenInfo]) -> Text:
    return Text(file, block[0].start[0], "\n".join(token.string.lstrip("#:").strip() for token in block))


def texts_of_markdown(file: str, source: str) -> Iterator[Text]:
    """The paragraphs and table cells of a page; code blocks and headings are left out."""

    def blank(found: re.Match[str]) -> str:
        return "\n" * found[0].count("\n")

    source = _COMMENT.sub(blank, _FENCE.sub(blank, source))
    start, paragraph = 0, list[str]()
    for number, line in enumerate([*source.splitlines(), ""], 1):
        cells = line.lstrip().startswith("|")
        if paragraph and (not line.strip() or cells or line.startswith("#")):
            yield Text(file, start, "\n".join(paragraph))
            paragraph = []
        if cells:
            hidden = _CODE.sub("code", line).replace(r"\|", " ")
            yield from (Text(file, number, cell) for cell in hidden.strip().strip("|").split("|"))
        elif line.strip() and not line.startswith("#"):
            start = start if paragraph else number
            paragraph.append(line)


def names_of_python(file: str, source: str) -> Iterator[Text]:
    """The names of a file: its folders, its own and those of its classes."""
    yield Text(file, 1, file.removesuffix(".py").removesuffix("__init__"))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            yield Text(file, node.lineno, node.name)


class Glossary:
    """The words that docs/glossary.md allows in names, and those that it forbids in texts."""

    def __init__(self, page: str) -> None:
        _, _, rest = page.partition("\n## Plain words in names")
        plain, _, forbidden = rest.partition("\n## Words that our texts do not use")
        terms = " ".join(row.split("|")[1] for row in page.partition("\n## Plain")[0].splitlines() if row[:1] == "|")
        #: Each small word that a class, file or folder may have in its name.
        self.allowed = {word.lower() for word in _NAME.findall(terms + plain)}
        #: A word that no text has -> what it says instead.
        self.forbidden = dict(_forbidden(forbidden))

    def unknown(self, name: str) -> list[str]:
        """The words of a name that stand nowhere in the glossary."""
        return [word for word in _NAME.findall(name) if word.lower() not in self.allowed]


def _forbidden(table: str) -> Iterator[tuple[str, str]]:
    for row in table.splitlines():
        if row.startswith("|") and not row.startswith(("|---", "| not |")):
            words, instead = (cell.strip() for cell in row.strip("| ").split(" | "))
            yield from ((word.strip(), instead) for word in words.split(","))


def faults_of(said: Iterable[Text], words: Glossary) -> Iterator[Fault]:
    """The long sentences and forbidden words of these texts."""
    for text in said:
        for sentence in sentences(text.words):
            count = word_count(sentence)
            if count > SENTENCE_WORDS_MAX:
                yield Fault(text.file, text.line, f"{count} words: {sentence}")
        if text.opens and (opening := _OPENING.match(text.words)):
            yield Fault(text.file, text.line, f"{opening[0]!r} begins a docstring: begin with the thing or with a verb")
        bare = _CODE.sub("code", text.words)
        for word, instead in words.forbidden.items():
            if re.search(rf"\b{word}\b", bare, re.IGNORECASE):
                yield Fault(text.file, text.line, f"{word!r}: say {instead}")


def faults(files: dict[str, str], words: Glossary) -> list[Fault]:
    """What breaks the rule in these files, by name with their text. Names count in our own packages alone."""
    found: list[Fault] = []
    for file, source in sorted(files.items()):
        if file.endswith(".md"):
            found += faults_of(texts_of_markdown(file, source), words) if file != "docs/glossary.md" else []
            continue
        found += faults_of(texts_of_python(file, source), words)
        if not file.startswith(("tests/", "deploy/")):
            found += [
                Fault(name.file, name.line, f"{word!r} of {name.words} is not in docs/glossary.md")
                for name in names_of_python(file, source)
                for word in words.unknown(name.words)
            ]
    return found


def held_to_it(file: str) -> bool:
    """Whether a file's texts are held to the rule."""
    return not file.startswith(HISTORY + NOT_YET)


def texts(wanted: Callable[[str], bool]) -> dict[str, str]:
    """The Python files and pages whose names are wanted, by name, with their text."""
    paths = {str(path.relative_to(ROOT)): path for path in (*tracked("*.py"), *tracked("*.md"))}
    return {file: path.read_text(encoding="utf-8") for file, path in paths.items() if wanted(file)}


def glossary() -> Glossary:
    """docs/glossary.md, read."""
    return Glossary(GLOSSARY.read_text(encoding="utf-8"))


def main(folders: list[str]) -> int:
    """Print the faults of these folders, whether held to the rule or not; of none given, of all that are held to it."""
    chosen = texts(lambda file: file.startswith(tuple(folders)) if folders else held_to_it(file))
    found = faults(chosen, glossary())
    for fault in found:
        print(fault)
    print(f"{len(found)} in {len(chosen)} files", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
