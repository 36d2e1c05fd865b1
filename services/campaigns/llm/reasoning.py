"""Strips the reasoning that a model writes before its answer."""

import re

_COMPLETE = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)
_UNENDED = re.compile(r"\A\s*<think>(?!.*</think>)", re.DOTALL)
# Some chat templates write <think> at the end of the prompt. The end has a line of its own then,
# unlike a script's "</think>", which only follows a "<think>".
_OPENED_BY_THE_TEMPLATE = re.compile(
    r"\A(?:(?!<think>).)*?^</think>[ \t]*$\s*", re.DOTALL | re.MULTILINE
)


def without_reasoning(answer: str) -> str:
    """The text after the leading reasoning; empty if the reasoning does not end."""
    if _UNENDED.match(answer):
        return ""
    reasoning = _COMPLETE.match(answer) or _OPENED_BY_THE_TEMPLATE.match(answer)
    return answer if reasoning is None else answer[reasoning.end() :]
