"""Rows of training files as the tokens that offline training will read, for the model's own chat
template; neither torch nor transformers is needed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from tokenizers import Encoding, Tokenizer

from services.contracts.errors import InvalidRequest
from services.contracts.offline import OfflineHyperparameters
from services.contracts.training_rows import DataFormat, RowKind
from services.datasets.conversation import Conversation, ConversationReader, ConversationRow
from services.datasets.record import JsonValue, RowError
from services.datasets.rendering import opened, render, render_answer, render_pair
from services.datasets.training_tokens import (
    Token,
    TokenSettings,
    TrainingTokens,
    answer_tokens,
    conversation_tokens,
    text_tokens,
)
from services.rollouts.chat.files import (
    read_chat_files,
    read_special_tokens,
    read_tokenizer,
    refused,
)
from services.rollouts.chat.template import ChatTemplate, check_variables

MAX_CHARACTERS = 1_000_000
"""Limit for a row whose tokens are shown: encoding longer ones takes seconds."""

Part = Literal["conversation", "preferred", "rejected", "answer", "text"]


@dataclass(frozen=True)
class Example:
    """A sequence, and which answer of its row it ends with."""

    part: Part
    sequence: TrainingTokens


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a model; takes a second for a large vocabulary. Raises InvalidRequest."""
    text = read_tokenizer(folder)
    try:
        tokenizer = Tokenizer.from_str(text)
    except Exception as error:  # the library raises nothing narrower
        raise refused(f"tokenizer.json cannot be used: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


class ExampleReader:
    """Turns rows into examples as training with these settings does."""

    def __init__(
        self,
        folder: Path,
        tokenizer: Tokenizer,
        settings: OfflineHyperparameters,
        data_format: DataFormat,
    ) -> None:
        """Raises InvalidRequest for a model whose chat template is missing or unusable, and for a
        variable that it does not read."""
        arguments = settings.llamafactory
        self._kind = settings.rows
        self._rows = ConversationReader(settings.rows, data_format)
        self._tokenizer = tokenizer
        self._characters = 0
        self._system = str(arguments["default_system"]) if arguments.get("default_system") else None
        cutoff = arguments.get("cutoff_len")
        self._tokens = TokenSettings(
            cutoff=cutoff if isinstance(cutoff, int) else settings.max_seq_length,
            train_on_prompt=bool(arguments.get("train_on_prompt")),
            mask_history=bool(arguments.get("mask_history")),
        )
        if self._kind is RowKind.TEXT:
            self._end = read_special_tokens(folder).get("eos_token", "")
            # Packed text is cut into sequences that begin anywhere, so that no token is lost.
            self._text_cutoff = None if arguments.get("packing", True) else self._tokens.cutoff
        else:
            self._template = _Template(folder, settings)

    def read(self, row: JsonValue) -> tuple[bool | None, list[Example]]:
        """The label of a row with feedback, and the examples.

        Raises RowError, also for a row with more than `MAX_CHARACTERS`.
        """
        self._characters = 0
        read = self._rows.read(row)
        return read.label, list(self._examples(row, read))

    def _examples(self, row: JsonValue, read: ConversationRow) -> Iterator[Example]:
        conversations = [opened(each, self._system) for each in read.conversations]
        match self._kind:
            case RowKind.DEMONSTRATION:
                for example in render(conversations[0], self._template):
                    tokens = conversation_tokens(example, self._encode, self._tokens)
                    yield Example("conversation", tokens)
            case RowKind.PREFERENCE:
                yield from self._pair(conversations)
            case RowKind.FEEDBACK:
                exchange = render_answer(conversations[0], self._template)
                yield from self._answers(exchange.context, [("answer", exchange.response)])
            case RowKind.TEXT:
                text = row["text"] + self._end
                yield Example("text", text_tokens(text, self._encode, self._text_cutoff))

    def _pair(self, conversations: Sequence[Conversation]) -> Iterator[Example]:
        preferred, rejected = conversations
        prompt, (first, second) = render_pair(preferred, rejected, self._template)
        yield from self._answers(prompt, [("preferred", first), ("rejected", second)])

    def _answers(self, prompt: str, answers: Sequence[tuple[Part, str]]) -> Iterator[Example]:
        texts = [text for _, text in answers]
        sequences = answer_tokens(prompt, texts, self._encode, self._tokens.cutoff)
        for (part, _), sequence in zip(answers, sequences, strict=True):
            yield Example(part, sequence)

    def _encode(self, text: str) -> "_EncodedText":
        self._characters += len(text)
        if self._characters > MAX_CHARACTERS:
            raise RowError(f"has more than {MAX_CHARACTERS:,} characters, too many to show tokens")
        return _EncodedText(text, self._tokenizer.encode(text, add_special_tokens=False))


class _Template:
    """The model's chat template; a conversation that it rejects is an error of the row."""

    def __init__(self, folder: Path, settings: OfflineHyperparameters) -> None:
        files, variables = read_chat_files(folder), settings.chat_template_kwargs
        self._plain = ChatTemplate(files.template, files.special_tokens, variables)
        self._with_tools = ChatTemplate(files.tool_template, files.special_tokens, variables)
        check_variables(variables, self._plain, self._with_tools)

    def __call__(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], *, prompt: bool
    ) -> str:
        template = self._with_tools if tools else self._plain
        try:
            return template.render(messages, tools, opening=prompt)
        except InvalidRequest as error:
            raise RowError(error.message) from None


class _EncodedText:
    """A text's encoding; its tokens are created lazily."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self._text = text
        self._encoding = encoding

    def __len__(self) -> int:
        return len(self._encoding)

    def first(self, count: int) -> list[Token]:
        """The first ``count`` tokens.

        A token's text extends to the start of the next one, so that the texts add up to the whole;
        of several tokens that form one character, the last has it.
        """
        ids = self._encoding.ids[:count]
        begins = [begin for begin, _ in self._encoding.offsets[1 : count + 1]]
        places = pairwise([0, *begins, len(self._text)])
        pieces = zip(ids, places, strict=False)
        return [Token(token, self._text[begin:end]) for token, (begin, end) in pieces]
