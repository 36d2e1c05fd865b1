"""Parse YAML written by people."""

import re
from typing import Any

import yaml


class _Loader(yaml.SafeLoader):
    """YAML 1.1 reads 1e-4 as a string; later versions, and every reader, as a number.

    A key that a mapping has twice is an error, as YAML has it, or is listed in ``repeated``: PyYAML
    alone would take the last without a word.
    """

    repeated: list[str] | None = None

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """A mapping as it is written, before others are merged into it."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if (key.tag, key.value) in seen:
                self._refuse(key)
            seen.add((key.tag, key.value))
        return node

    def _refuse(self, key: yaml.ScalarNode) -> None:
        if self.repeated is None:
            what = f"the key {key.value[:100]!r} is given twice"
            raise yaml.constructor.ConstructorError(None, None, what, key.start_mark)
        self.repeated.append(key.value[:100])


_MERGE = "tag:yaml.org,2002:merge"


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
)


def parse_yaml(text: str, repeated: list[str] | None = None) -> Any:
    """Parse YAML or JSON into plain values only; raises ``yaml.YAMLError``.

    A key that is given twice is an error; with a list ``repeated`` it is added to that, and the
    last value counts.
    """
    loader = _Loader(text)
    loader.repeated = repeated
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
