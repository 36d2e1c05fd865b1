"""A written form of an answer, whose right verdict is known from how it was made."""

from dataclasses import dataclass
from typing import Literal

Grader = Literal["numeric", "choice", "math", "box", "code", "tests"]


@dataclass(frozen=True, slots=True)
class Form:
    """The text of an answer to a question with this gold; ``kind`` says how it is written.

    The gold of ``code`` is the program, that of ``tests`` the tests that a program has to pass.
    """

    grader: Grader
    kind: str
    text: str
    gold: str
    is_right: bool = True
