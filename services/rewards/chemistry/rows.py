"""Rows of ChemCoTBench (OpenMol/ChemCoTBench): their questions and the keys of their answers."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import JsonValue

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.rewards.graders import ChemistryGrader
from services.rewards.chemistry.smarts import SMARTS

COUNT, SCAFFOLD, OUTPUT = "count", "Output Scaffold", "output"
UNDERSTANDING: Mapping[str, str] = MappingProxyType(
    {
        "fg_count": COUNT,
        "ring_count": COUNT,
        "Murcko_scaffold": SCAFFOLD,
        "ring_system_scaffold": OUTPUT,
        "mutated": OUTPUT,
        "permutated": OUTPUT,
        "equivalence": OUTPUT,
    }
)
"""The key of the answer to each sub-task of mol_und."""
EDITS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "add": ("added_group",),
        "delete": ("removed_group",),
        "sub": ("added_group", "removed_group"),
        "substitute": ("added_group", "removed_group"),
    }
)
"""The fields of ``meta`` that each sub-task of mol_edit needs."""
BEST: Mapping[str, float] = MappingProxyType(
    {"logp": 0.5, "solubility": 0.5, "qed": 0.3, "drd2": 0.3, "jnk3": 0.3, "gsk3b": 0.3}
)
"""The sub-tasks of mol_opt, and the minimum improvement of a top answer for each."""
TARGETS = ("Final Target Molecule", "Final_Target_Molecule")
"""The key of the answer to mol_opt."""
PRODUCT, CHOICE = "Major Product", "choice"
REACTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "fs": (PRODUCT, "Byproduct(s)"),
        "retro": ("Reactants",),
        "nepp": (OUTPUT,),
        "rcr": ("condition",),
        "mechsel": (CHOICE,),
    }
)
"""The key of the answer to each sub-task of reaction: forward synthesis, retrosynthesis, product of
the next elementary step, conditions, and mechanism selection."""
SUBTASKS: Mapping[str, Collection[str]] = MappingProxyType(
    {"mol_und": UNDERSTANDING, "mol_edit": EDITS, "mol_opt": BEST, "reaction": REACTIONS}
)
MAX_SMILES = 2000

_SOURCE = re.compile(r"(?:Input Molecule|Molecule SMILES|Source Molecule):\s*[`'\"]?([^\s`'\"]+)")


@dataclass(frozen=True)
class Question:
    """The question of a row. The answer is in the JSON under the first of ``keys`` that is present;
    edits have a ``source``."""

    task: str
    subtask: str
    keys: tuple[str, ...]
    gold: str = ""
    source: str = ""
    added: str | None = None
    removed: str | None = None

    @property
    def part(self) -> str:
        """The task and the sub-task, by which scores are grouped."""
        return f"{self.task}/{self.subtask}"


def read_question(row: JsonObject, settings: ChemistryGrader) -> Question:
    """Parse the question of a row; raises `InvalidRequest` with the field at fault as its
    ``param``."""
    task, subtask = row.get("task"), row.get("subtask")
    if task not in settings.tasks:
        raise InvalidRequest(f"{task!r} is none of {', '.join(settings.tasks)}", param="task")
    if not isinstance(subtask, str) or subtask not in SUBTASKS[task]:
        raise InvalidRequest(f"{subtask!r} is none of {', '.join(SUBTASKS[task])}", param="subtask")
    match task:
        case "mol_und":
            key = UNDERSTANDING[subtask]
            return Question(task, subtask, (key,), gold=_gold(row.get("gt"), key))
        case "mol_opt":
            return Question(task, subtask, TARGETS, source=_source(row))
        case "reaction":
            keys, gold = _reaction(row, subtask)
            return Question(task, subtask, keys, gold=gold)
    groups = {field: _group(row, field) for field in EDITS[subtask]}
    added, removed = groups.get("added_group"), groups.get("removed_group")
    return Question(task, subtask, (OUTPUT,), "", _source(row), added, removed)


def text_of(value: Any) -> str | None:
    """The value as text if it is a string, a boolean or a number; None for anything else."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str | int | float):
        return str(value).strip() or None
    return None


def count_of(text: str) -> int | None:
    """The integer that a text consists of, such as ``2`` or ``2.0``."""
    match = re.fullmatch(r"([+-]?\d{1,9})(?:\.0*)?", text.strip())
    return int(match[1]) if match else None


def _gold(gt: JsonValue, key: str) -> str:
    gold = text_of(gt)
    if gold is None:
        raise InvalidRequest("is missing, or neither text nor number", param="gt")
    if key == COUNT and count_of(gold) is None:
        raise InvalidRequest(f"{gold!r} is not a whole number", param="gt")
    if len(gold) > MAX_SMILES:
        raise InvalidRequest(f"has more than {MAX_SMILES} characters", param="gt")
    return gold


def _reaction(row: JsonObject, subtask: str) -> tuple[tuple[str, ...], str]:
    """The keys of the answer and the gold, which is a text or, in JSON, under one of the keys."""
    keys, gt = REACTIONS[subtask], row.get("gt")
    if isinstance(gt, str) and gt.lstrip().startswith("{"):
        try:
            gt = json.loads(gt)
        except (ValueError, RecursionError):
            raise InvalidRequest("begins as JSON, and is not JSON", param="gt") from None
    if not isinstance(gt, dict):
        return keys, _gold(gt, keys[0])
    for key in keys:
        if key in gt:
            return (key,), _gold(gt[key], key)
    raise InvalidRequest(f"has none of {', '.join(keys)}", param="gt")


def _group(row: JsonObject, field: str) -> str:
    meta = row.get("meta")
    if isinstance(meta, str):
        try:
            meta = json.loads(meta)
        except (ValueError, RecursionError):
            raise InvalidRequest("is not JSON", param="meta") from None
    name = meta.get(field) if isinstance(meta, dict) else None
    if not isinstance(name, str) or name not in SMARTS:
        message = f"{name!r} is not a functional group; there are {', '.join(sorted(SMARTS))}"
        raise InvalidRequest(message, param=f"meta.{field}")
    return name


def _source(row: JsonObject) -> str:
    query = row.get("query")
    found = _SOURCE.findall(query) if isinstance(query, str) else []
    if not found:
        message = (
            "has no molecule behind 'Input Molecule:', 'Molecule SMILES:' or 'Source Molecule:'"
        )
        raise InvalidRequest(message, param="query")
    return str(found[-1]).rstrip(".,;")
