"""Parse YAML written by people."""

import re
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """YAML 1.1 reads 1e-4 as a string; later versions, and every reader, as a number."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
)


def parse_yaml(text: str) -> Any:
    """Parse YAML or JSON into plain values only; raises ``yaml.YAMLError``."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader with one more number
