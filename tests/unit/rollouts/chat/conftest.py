"""Chat tokens of every model family, opened from a model folder."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from services.rollouts.chat import open_chat_tokens
from services.rollouts.chat.conversations import ChatTokens
from tests.support.chat_templates.families import FAMILIES, Family


@dataclass(frozen=True)
class Opened:
    """A family with its chat tokens and the library's own tokenizer."""

    family: Family
    chat: ChatTokens
    tokenizer: Tokenizer

    def ids(self, text: str) -> list[int]:
        """The tokens of a model that samples ``text`` canonically."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids


def opened(name: str, folder: Path) -> Opened:
    """Write a family's files to a folder and open it."""
    family = FAMILIES[name]
    family.write(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return Opened(family, open_chat_tokens(folder), tokenizer)


@pytest.fixture(scope="session")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Opened]:
    """All families."""
    return {name: opened(name, tmp_path_factory.mktemp(name)) for name in FAMILIES}


@pytest.fixture(params=list(FAMILIES))
def opened_family(request: pytest.FixtureRequest, families: dict[str, Opened]) -> Opened:
    """Each family in turn."""
    return families[request.param]


@pytest.fixture
def qwen3(families: dict[str, Opened]) -> Opened:
    return families["qwen3"]


Template = Callable[[str], ChatTokens]


@pytest.fixture
def template(tmp_path: Path) -> Template:
    """Opens chat tokens with the test's own template."""
    FAMILIES["qwen3"].write(tmp_path)

    def opened_with(source: str) -> ChatTokens:
        (tmp_path / "chat_template.jinja").write_text(source)
        return open_chat_tokens(tmp_path)

    return opened_with
