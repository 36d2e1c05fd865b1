"""Chat templates that render by themselves what a training sets: its default system message and
its variables. Free of transformers."""

import json
from collections.abc import Mapping

TemplateVariable = bool | int | float | str


def with_default_system(template: str, system: str) -> str:
    """A chat template that begins conversations without a system message with this one."""
    return (
        "{%- if messages and messages[0]['role'] != 'system' -%}{%- set messages = "
        f"[{{'role': 'system', 'content': {_literal(system)}}}] + messages -%}}{{%- endif +%}}"
        f"{template}"
    )


def with_variables(template: str, variables: Mapping[str, TemplateVariable]) -> str:
    """A chat template in which variables that are not given have these values."""
    defaults = (
        f"{{%- if {name} is not defined -%}}{{%- set {name} = {_literal(value)} -%}}{{%- endif +%}}"
        for name, value in variables.items()
    )
    return "".join(defaults) + template


def _literal(value: TemplateVariable) -> str:
    """A value as an expression of Jinja, which reads the escapes of JSON as Python does."""
    return json.dumps(value, ensure_ascii=False)
