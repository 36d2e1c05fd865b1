"""The line of a YAML or JSON text at which a field is."""

from collections.abc import Sequence

import yaml

from temper.submission.assignments import Part


def line_of(text: str, location: Sequence[Part]) -> int | None:
    """Return the line, from 1, of the innermost part of a location that the text has.

    Parts that are no field, such as the names of variants in the errors of pydantic, are passed
    over. None: the text has nothing of the location.
    """
    node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    found = None
    for part in location:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            if part >= len(node.value):
                break
            node = node.value[part]
            found = node
        elif isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == str(part)), None)
            if pair is not None:
                found, node = pair
    return None if found is None else int(found.start_mark.line) + 1
