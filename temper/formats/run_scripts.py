"""Run files of verl that are shell scripts: ``python3 -m verl.trainer.main_ppo KEY=VALUE ...``.

The script is read, never run: continued lines are joined, variables and sums of integers that the
script sets are replaced, and the overrides of the trainer's command become settings over the
defaults of its configuration.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from services.contracts.errors import InvalidRequest
from services.parsing.yaml_text import parse_yaml
from temper.formats.shell_text import assign, ends_command, joined_lines, replaced, summed, words
from temper.formats.verl_defaults import INHERITED

_TRAINER = re.compile(r"(?:\S+[./])?main_(?:ppo|dapo)(?:\.py)?")
_OVERRIDE = re.compile(r"(\+{0,2})([A-Za-z_][\w.@/-]*)=(.*)", re.DOTALL)
_CONFIGURATION = re.compile(r"--config-name(?:=(.*))?")
_POSITIONAL = frozenset({"$@", "$*"})


def settings_of_script(text: str) -> dict[str, Any]:
    """The settings of the one command of verl's trainer in a script; raises InvalidRequest for a
    script without one, and for overrides that cannot be read."""
    variables: dict[str, str] = {}
    for line in joined_lines(text):
        line_words = words(summed(line, variables))
        place = next((n for n, word in enumerate(line_words) if _TRAINER.fullmatch(word)), None)
        if place is not None:
            return _overrides(line_words[place + 1 :], variables)
        assign(line_words, variables)
    raise InvalidRequest("has no command of verl's trainer (main_ppo)")


def _overrides(given: Sequence[str], variables: Mapping[str, str]) -> dict[str, Any]:
    settings: dict[str, Any] = {"defaults": [INHERITED]}
    rest = iter(given)
    for word in rest:
        if word in _POSITIONAL:
            continue
        if ends_command(word):
            break
        if named := _CONFIGURATION.fullmatch(word):
            _check_configuration(named[1] or next(rest, ""))
            continue
        found = _OVERRIDE.fullmatch(word)
        if found is None:
            raise InvalidRequest(f"{word[:80]!r} of its command is not KEY=VALUE")
        _set(settings, found[2], replaced(found[3], variables))
    return settings


def _check_configuration(name: str) -> None:
    if not re.fullmatch(r"(ppo|dapo)(_megatron)?_trainer(\.ya?ml)?", name):
        raise InvalidRequest(
            f"--config-name {name[:80]!r} is another configuration than {INHERITED}: name the run "
            "file that it stands for"
        )


def _set(settings: dict[str, Any], key: str, text: str) -> None:
    *sections, name = key.split(".")
    section = settings
    for each in sections:
        section = section.setdefault(each, {})
        if not isinstance(section, dict):
            raise InvalidRequest(f"{key} is below a value", param=key)
    try:
        section[name] = parse_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{key} cannot be read: {error}", param=key) from None
