"""Lists every training argument of the installed LLaMA-Factory.

    python -m services.trainer.offline.library.catalogue [FILE]

run in the training runtime, writes the catalogue that services.contracts.llamafactory.arguments
checks requests against (by default over the committed one). Run it after a version change.
"""

import dataclasses
import json
import sys
import types
from collections.abc import Iterator
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from services.contracts.llamafactory import arguments as contract
from services.trainer.offline.library.internals import llamafactory_module

_GROUPS = ("model", "data", "training", "finetuning", "generating")
_RETIRED = {
    "logging_dir": contract.Argument(group="training", types=["null", "string"]),
    "warmup_ratio": contract.Argument(group="training", types=["null", "number"]),
}
"""Arguments that transformers no longer has and files still give; warmup_steps takes a share."""
_JSON_TYPES: dict[Any, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def installed_catalogue() -> contract.Catalogue:
    """The arguments of the LLaMA-Factory in this runtime."""
    arguments: dict[str, contract.Argument] = {}
    for group, arguments_class in zip(_GROUPS, _classes(), strict=True):
        hints = get_type_hints(arguments_class)
        for field in dataclasses.fields(arguments_class):
            if field.init:
                arguments[field.name] = _describe(group, hints[field.name], field)
    arguments |= _RETIRED
    return contract.Catalogue(
        llamafactory=version("llamafactory"),
        transformers=version("transformers"),
        templates=sorted(llamafactory_module("data.template").TEMPLATES),
        arguments=dict(sorted(arguments.items())),
    )


def _classes() -> list[Any]:
    """The argument classes, in the order of the groups."""
    return list(llamafactory_module("hparams.parser")._TRAIN_ARGS)


def _describe(group: str, annotation: Any, field: "dataclasses.Field[Any]") -> contract.Argument:
    kinds: set[str] = set()
    choices: list[str] = [str(choice) for choice in field.metadata.get("choices") or ()]
    for member in _members(annotation):
        if isinstance(member, type) and issubclass(member, Enum):
            choices += [str(choice.value) for choice in member]
            kinds.add("string")
        elif get_origin(member) is Literal:
            choices += [str(choice) for choice in get_args(member)]
            kinds.add("string")
        else:
            origin = get_origin(member) or member
            # A class of the library, such as a parallelism configuration, is passed as an object.
            kinds.add("null" if origin is type(None) else _JSON_TYPES.get(origin, "object"))
    return contract.Argument(
        group=group, types=sorted(kinds), choices=choices or None, default=_default(field)
    )


def _members(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    else:
        yield annotation


def _default(field: "dataclasses.Field[Any]") -> Any:
    value = field.default
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    if isinstance(value, Enum):
        value = value.value
    return value if isinstance(value, (bool, int, float, str, list, dict)) else None


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else contract.CATALOGUE_PATH
    target.write_text(_one_line_each(installed_catalogue()), encoding="utf-8")


def _one_line_each(catalogue: contract.Catalogue) -> str:
    """The catalogue as JSON with one argument per line, for readable diffs."""
    content = catalogue.model_dump(mode="json", exclude_none=True)
    arguments = content.pop("arguments")
    lines = [f'    "{name}": {json.dumps(value)}' for name, value in arguments.items()]
    head = [f'  "{name}": {json.dumps(value)},' for name, value in content.items()]
    return "\n".join(["{", *head, '  "arguments": {', ",\n".join(lines), "  }", "}", ""])


if __name__ == "__main__":
    main()
