"""Text has the same ids in every runtime, for every kind of tokenizer and template."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from services.models.tokenizer_ids.compare import RuntimeIds, compare, encode_in
from services.models.tokenizer_ids.prepared import is_settled, prepare_tokenizer
from services.models.tokenizer_ids.probes import probes_for
from services.rollouts.chat.template import ChatTemplate
from tests.support.chat_templates.conversation import QUESTION, TOOLS
from tests.support.chat_templates.families import FAMILIES
from tests.support.models.tokenizer_kinds import KINDS, MARKS
from tests.support.runtimes import installed_runtime

pytestmark = pytest.mark.runtime

PUBLISHED, PREPARED = "published", "prepared"
Found = Mapping[tuple[str, str], Mapping[str, RuntimeIds]]


def texts() -> list[str]:
    """The probes, and a conversation in each family's template."""
    answer = {"role": "assistant", "content": "  It is 4.\n"}
    conversation = [QUESTION, answer, QUESTION]
    templates = [
        ChatTemplate(each.template(), {"bos_token": "<s>", "eos_token": "</s>"})
        for each in FAMILIES.values()
    ]
    rendered = [each.render(conversation, TOOLS, opening=True) for each in templates]
    return [*probes_for(MARKS), *rendered]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """The ids in each runtime, by kind and by how its folder is made; one process per runtime."""
    root = tmp_path_factory.mktemp("kinds")
    folders: dict[tuple[str, str], Path] = {}
    for name, kind in KINDS.items():
        published = kind.write(root / PUBLISHED / name)
        folders[name, PUBLISHED] = published
        folders[name, PREPARED] = prepare_tokenizer(published, root / PREPARED / name)
    asked = [(folder, texts()) for folder in folders.values()]
    answers = {
        name: encode_in(installed_runtime(name).python, asked)
        for name in ("training", "vllm", "encoder")
    }
    return {
        case: {runtime: each[number] for runtime, each in answers.items()}
        for number, case in enumerate(folders)
    }


@pytest.mark.parametrize("name", KINDS)
def test_a_prepared_tokenizer_has_the_ids_of_its_file_in_every_runtime(
    found: Found, name: str
) -> None:
    ids = found[name, PREPARED]

    assert not any(each.error for each in ids.values())
    assert all(each.plain for each in ids.values())
    compare(name, texts(), ids)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.differs])
def test_the_texts_show_what_transformers_builds_differently(found: Found, name: str) -> None:
    """Otherwise the test above would prove nothing."""
    ids = found[name, PUBLISHED]

    assert any(each.error or each.built != each.plain for each in ids.values())


def test_the_file_decides_for_every_kind(tmp_path: Path) -> None:
    for name, kind in KINDS.items():
        folder = kind.write(tmp_path / name)
        assert is_settled(prepare_tokenizer(folder, tmp_path / f"{name}.prepared")), name
