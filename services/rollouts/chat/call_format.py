"""Whether a parser reads the call format of a model's chat template."""

from pathlib import Path

from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import MultiTurn
from services.inference.vllm.tool_calls import tool_call_parser
from services.rollouts.chat.files import read_chat_files

DEFAULT = MultiTurn.model_fields["tool_parser_format"].default


def check_parser_fits(folder: Path, settings: MultiTurn) -> None:
    """Raise InvalidRequest for a model without a chat template, and for the default parser where
    the template writes calls in another format: the model's calls would be taken for its answer.
    Any other parser is assumed to be deliberate.
    """
    read_chat_files(folder)
    written = tool_call_parser(folder)
    if settings.tool_parser_format == DEFAULT and written not in {None, DEFAULT}:
        raise InvalidRequest(
            f"{folder.name} writes calls in the format {written}, which {DEFAULT} does not read",
            param="multi_turn.tool_parser_format",
        )
