"""Validation of the settings of conversations with tools."""

from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.sampling import Sampling
from services.rollouts.parsers import parser_of


def validate_multi_turn(settings: MultiTurn, sampling: RolloutSampling | Sampling) -> None:
    """Raise InvalidRequest for conflicting settings or an unknown parser; ``param`` names the
    field, as in ``multi_turn.async_engine``."""
    parser_of(settings.tool_parser_format)
    if not settings.multi_turn_enable:
        return
    if not settings.async_engine:
        raise InvalidRequest(
            "async_engine must be true where multi_turn_enable is", param="multi_turn.async_engine"
        )
    total = settings.max_total_response_length
    if total is not None and total < sampling.max_tokens:
        raise InvalidRequest(
            f"max_total_response_length must be at least the sampling's max_tokens,"
            f" {sampling.max_tokens}; it is {total}",
            param="multi_turn.max_total_response_length",
        )
