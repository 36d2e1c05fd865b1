"""Reading YAML that people write by hand."""

import re
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """YAML 1.1 takes 1e-4 for text; later versions, and every reader, take it for a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
)


def parse_yaml(text: str) -> Any:
    """The value that a YAML or JSON text holds; raises ``yaml.YAMLError``. Makes plain values
    only, whatever tags the text has."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader with one more number
