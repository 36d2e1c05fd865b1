"""Parse YAML written by people."""

import re
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """YAML 1.1 reads 1e-4 as a string; later versions, and every reader, as a number.

    A key that a mapping has twice is an error, as YAML has it: PyYAML would take the last.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """A mapping as it is written, before others are merged into it."""
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if (key.tag, key.value) in seen:
                what = f"the key {key.value[:100]!r} is given twice"
                raise yaml.constructor.ConstructorError(None, None, what, key.start_mark)
            seen.add((key.tag, key.value))
        return node


_MERGE = "tag:yaml.org,2002:merge"


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
)


def parse_yaml(text: str) -> Any:
    """Parse YAML or JSON into plain values only; raises ``yaml.YAMLError``."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader with one more number
