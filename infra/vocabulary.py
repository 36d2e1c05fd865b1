"""Finds British spellings and translated idioms: ``python infra/vocabulary.py``, part of lint.

The code, its texts and the documentation use American English and the terms of docs/glossary.md.
A line of output names the file, the line, the word and what to write instead.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]

CHECKED = (
    *(".ci", "CONTRIBUTING.md", "Makefile", "README.md", "docker-compose.yml", "docs"),
    *("benchmarks", "examples", "infra", "services", "temper", "tests"),
)
"""Files and folders, relative to the repository."""

EXEMPT = ("infra/vocabulary.py", "tests/unit/infra/test_vocabulary.py", "docs/glossary.md")
"""These name the words."""

EXEMPT_LINE = re.compile(r"retired|renamed")
"""A line that refuses an old name may name it."""

STEMS = (
    "author|custom|final|general|initial|maxim|memor|minim|normal|optim|organ|parallel|quant|random"
    "|real|recogn|serial|special|synchron|token|util|vector"
)
SPELLINGS = {
    r"behaviour\w*": "behavior",
    r"colour\w*": "color",
    r"favour\w*": "favor",
    r"honour\w*": "honor",
    r"neighbour\w*": "neighbor",
    r"judgement\w*": "judgment",
    r"licence\w*": "license",
    rf"(?:un)?(?:{STEMS})is(?:e|es|ed|er|ers|ing|ation|ations)": "-ize, -ization",
    r"analys(?:e|es|ed|ing)(?! of)": "analyze",
    r"centre[sd]?": "center",
    r"fulfil(?:s|ment)?": "fulfill",
    r"modell(?:ed|ing)": "modeled, modeling",
    r"labell(?:ed|ing)": "labeled, labeling",
}
"""British spellings, as regular expressions of whole words in lower case."""

PHRASES = {
    r"anew": "again",
    r"for ever": "indefinitely, until cancelled, without bound",
    r"who(?:m|so)?ever": "anyone who, the client that",
    r"whatever it is": "any",
    r"is(?<!there is) no(?= (?!longer|more|less|better|worse|different|other))": "is not a",
    r"(?:is not|cannot|can not|not|to) (?:to )?be had": "is not available, cannot be downloaded",
    r"lies (?:in|under|beside|below|at)\b": "is in, is stored in",
    r"in vain": "without effect, rejected",
    r"by hand of": "by",
    r"by heart": "verbatim",
    r"figures": "metrics, numbers",
    r"truth values?": "boolean",
    r"is asked with": "takes",
    r"comes to nothing": "fails",
    r"what came of": "result",
}
"""Idioms that read as translated, as regular expressions in lower case."""


def main() -> int:
    """Print every such word in the checked files; return 1 if there is one."""
    problems = [problem for path in checked_files() for problem in check(path)]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


def checked_files() -> list[Path]:
    """Text files under version control, or about to be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *CHECKED]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    paths = (REPOSITORY / name for name in listed.stdout.splitlines() if name not in EXEMPT)
    return [path for path in paths if path.is_file()]


def check(path: Path) -> Iterator[str]:
    """The problems of one file, as lines of output."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    for position, word, better in words_in(text):
        number = text.count("\n", 0, position) + 1
        yield f"{path.relative_to(REPOSITORY)}:{number}: {word!r}: write {better}"


def words_in(text: str) -> Iterator[tuple[int, str, str]]:
    """The words of a text to replace: where each is, the word, and what to write instead."""
    lowered = text.encode().lower().decode()  # of ASCII letters only, so that positions stay
    for pattern, better in _WORDS:
        for found in pattern.finditer(lowered):
            begin, end = found.span()
            inside_word = begin > 0 and text[begin - 1].isascii() and text[begin - 1].isalpha()
            if not inside_word and not EXEMPT_LINE.search(_line(text, begin)):
                yield begin, text[begin:end], better


def _line(text: str, position: int) -> str:
    return text[text.rfind("\n", 0, position) + 1 :].partition("\n")[0]


# They begin with a literal where they can: the engine then skips to it, which is a hundred times
# as fast as a boundary that is tried at each character.
_WORDS = [
    (re.compile(rf"{word}(?![a-z])"), better) for word, better in (SPELLINGS | PHRASES).items()
]

if __name__ == "__main__":
    sys.exit(main())
