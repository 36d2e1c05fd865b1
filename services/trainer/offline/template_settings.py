"""Chat templates that render by themselves what a training sets: its default system message and
its variables. Free of transformers."""

import json
from collections.abc import Mapping

from pydantic import JsonValue


def with_default_system(template: str, system: str) -> str:
    """A chat template that begins conversations without a system message with this one."""
    return (
        "{%- if messages and messages[0]['role'] != 'system' -%}{%- set messages = "
        f"[{{'role': 'system', 'content': {_literal(system)}}}] + messages -%}}{{%- endif +%}}"
        f"{template}"
    )


def with_variables(template: str, variables: Mapping[str, JsonValue]) -> str:
    """A chat template in which variables that are not given have these values."""
    defaults = (
        f"{{%- if {name} is not defined -%}}{{%- set {name} = {_literal(value)} -%}}{{%- endif +%}}"
        for name, value in variables.items()
        if name.isidentifier()  # no template reads others, which is said where it is checked
    )
    return "".join(defaults) + template


def _literal(value: JsonValue) -> str:
    """A value as an expression of Jinja, which reads escapes as Python does."""
    if isinstance(value, dict):
        pairs = (f"{_literal(key)}: {_literal(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if value is None:
        return "none"
    return json.dumps(value, ensure_ascii=False)  # true, false, numbers and texts
