"""A program that is run twice: by Python itself and in the sandbox."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import dedent

from services.sandbox.execution import PythonFile, PythonModule

MAIN = PythonFile("main.py")


@dataclass(frozen=True)
class Program:
    """A file ``main.py``, or whatever ``command`` says, with what it finds.

    ``known_difference`` is the reason why it cannot end the same in the sandbox, and
    ``difference_in_container`` why not in that tier.
    """

    source: str | bytes
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    command: PythonFile | PythonModule = MAIN
    imports: frozenset[str] = frozenset()
    known_difference: str | None = None
    difference_in_container: str | None = None

    @property
    def all_files(self) -> dict[str, bytes]:
        """Everything in the work directory, by name."""
        source = self.source
        main = source if isinstance(source, bytes) else dedent(source).lstrip("\n").encode()
        return {"main.py": main, **self.files}
