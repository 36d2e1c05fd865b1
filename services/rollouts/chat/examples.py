"""Rows of training files as the tokens that offline training will read, for the model's own chat
template; neither torch nor transformers is needed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.names import Stage
from services.contracts.training.offline import OfflineHyperparameters
from services.contracts.training.rows import DataFormat, RowKind
from services.datasets.conversation import ConversationReader
from services.datasets.record import JsonValue, RowError
from services.datasets.rendering.exchanges import reasoning_key, with_reasoning_as
from services.datasets.rendering.rows import RenderedRow, RowRenderer
from services.datasets.rendering.text_encoding import EncodedText, TextEncoder, TokenizerEncoder
from services.datasets.rendering.training_tokens import TokenSettings
from services.rollouts.chat.files import (
    read_chat_files,
    read_special_tokens,
    read_tokenizer,
    refused,
)
from services.rollouts.chat.template import ChatTemplate, check_variables

MAX_CHARACTERS = 1_000_000
"""Limit for a row whose tokens are shown: encoding longer ones takes seconds."""


def load_encoder(folder: Path) -> TokenizerEncoder:
    """The tokenizer of a model; takes a second for a large vocabulary. Raises InvalidRequest."""
    text = read_tokenizer(folder)
    try:
        return TokenizerEncoder(text, ends=_end_texts(read_special_tokens(folder)))
    except Exception as error:  # the library raises nothing narrower
        raise refused(f"tokenizer.json cannot be used: {error}") from None


def _end_texts(special: Mapping[str, str]) -> list[str]:
    return [special["eos_token"]] if special.get("eos_token") else []


def row_renderer(
    folder: Path, encode: TextEncoder, settings: OfflineHyperparameters
) -> RowRenderer:
    """Renders rows as training with these settings does.

    Raises InvalidRequest for a model whose chat template is missing or unusable, and for a variable
    that it does not read.
    """
    arguments = settings.llamafactory
    is_text = settings.rows is RowKind.TEXT
    cutoff = arguments.get("cutoff_len")
    system = arguments.get("default_system")
    return RowRenderer(
        settings.rows,
        None if is_text else FolderTemplate(folder, settings.chat_template_kwargs),
        encode,
        TokenSettings(
            cutoff=cutoff if isinstance(cutoff, int) else settings.max_seq_length,
            leaves_out_long=settings.long_rows == "leave_out",
            neutralizes=settings.control_tokens == "neutralize",
            train_on_prompt=bool(arguments.get("train_on_prompt")),
            mask_history=bool(arguments.get("mask_history")),
            scores_answers=settings.stage is Stage.RM,
        ),
        default_system=str(system) if system else None,
        end_of_text=read_special_tokens(folder).get("eos_token", "") if is_text else "",
        # Packed text is cut into sequences that begin anywhere, so that no token is lost.
        splits_text=bool(arguments.get("packing", True)),
    )


class ExampleReader:
    """Turns rows into the sequences that are shown to people."""

    def __init__(
        self,
        folder: Path,
        encode: TextEncoder,
        settings: OfflineHyperparameters,
        data_format: DataFormat,
    ) -> None:
        """Raises InvalidRequest as `row_renderer` does."""
        self._encode = _BoundedEncoder(encode)
        self._rows = ConversationReader(settings.rows, data_format, joins_turns=settings.join_turns)
        self._renderer = row_renderer(folder, self._encode, settings)

    def read(self, row: JsonValue) -> RenderedRow:
        """Render a row; raises RowError, also for one with more than `MAX_CHARACTERS`."""
        self._encode.characters = 0
        return self._renderer.render(row, self._rows.read(row))


class _BoundedEncoder:
    """An encoder that refuses rows with too much text."""

    def __init__(self, encode: TextEncoder) -> None:
        self.characters = 0
        self.special = encode.special
        self._encode = encode

    def __call__(self, text: str) -> EncodedText:
        # A row is encoded twice: to find where to cut it, and for its tokens.
        self.characters += len(text)
        if self.characters > 2 * MAX_CHARACTERS:
            raise RowError(f"has more than {MAX_CHARACTERS:,} characters, too many to show tokens")
        return self._encode(text)


class FolderTemplate:
    """The chat template in a model's folder; a conversation that it rejects is an error of the
    row."""

    def __init__(self, folder: Path, variables: Mapping[str, JsonValue]) -> None:
        """Raises InvalidRequest for a missing or unusable template."""
        files = read_chat_files(folder)
        self._plain = ChatTemplate(files.template, files.special_tokens, variables)
        self._with_tools = ChatTemplate(files.tool_template, files.special_tokens, variables)
        check_variables(variables, self._plain, self._with_tools)
        self._reasoning = reasoning_key(files.template + files.tool_template)

    def __call__(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], *, prompt: bool
    ) -> str:
        template = self._with_tools if tools else self._plain
        try:
            turns = with_reasoning_as(self._reasoning, messages)
            return template.render(turns, tools, opening=prompt)
        except InvalidRequest as error:
            raise RowError(error.message) from None
