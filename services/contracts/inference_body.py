"""What Temper refuses of a completion's body: at the gateway, in batch files, in `temper batch`."""

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest

RENAMED = {
    "guided_json": 'structured_outputs {"json": ...} or response_format',
    "guided_regex": 'structured_outputs {"regex": ...}',
    "guided_choice": 'structured_outputs {"choice": [...]}',
    "guided_grammar": 'structured_outputs {"grammar": ...}',
    "guided_json_object": 'response_format {"type": "json_object"}',
    "guided_whitespace_pattern": 'structured_outputs {"whitespace_pattern": ...}',
    "guided_decoding_backend": "structured_outputs, for which the engine chooses a backend",
}
"""Fields of guided decoding that vLLM ignores today, by what does the same."""

COUNTS = ("n", "best_of")
"""How many choices a request has of each prompt."""


def check_body(value: JsonObject, max_choices: int) -> None:
    """Raise `InvalidRequest` for a renamed field, for more than ``max_choices`` choices, and for
    fields whose type an engine would convert: limits and usage are counted by what is sent."""
    check_names(value)
    _check_types(value)
    prompt = value.get("prompt")
    several = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
    prompts = len(prompt) if several and isinstance(prompt, list) else 1
    for name in COUNTS:
        number = value.get(name)
        if isinstance(number, int) and number * prompts > max_choices:
            times = f" times {prompts} prompts" if prompts > 1 else ""
            raise InvalidRequest(
                f"{name} is {number}{times}: a request has at most {max_choices} choices "
                "(TEMPER_MAX_CHOICES)",
                param=name,
            )
    if prompts > max_choices and value.get("n") is None:
        raise InvalidRequest(
            f"prompt has {prompts} texts: a request has at most {max_choices} choices "
            "(TEMPER_MAX_CHOICES)",
            param="prompt",
        )


def check_names(value: JsonObject) -> None:
    """Raise `InvalidRequest` for a field that engines would ignore without a word."""
    for name, now in RENAMED.items():
        if value.get(name) is not None:
            raise InvalidRequest(f"{name} has been renamed: use {now}", param=name)


def _check_types(value: JsonObject) -> None:
    for name in COUNTS:
        number = value.get(name)
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise InvalidRequest(f"{name} must be an integer", param=name)
    options = value.get("stream_options")
    flags = {"stream": value.get("stream")}
    if options is not None:
        if not isinstance(options, dict):
            raise InvalidRequest("stream_options must be an object", param="stream_options")
        flags["stream_options.include_usage"] = options.get("include_usage")
    for name, flag in flags.items():
        if flag is not None and not isinstance(flag, bool):
            raise InvalidRequest(f"{name} must be true or false", param=name)
