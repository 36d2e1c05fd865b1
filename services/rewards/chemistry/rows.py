"""Rows of ChemCoTBench (OpenMol/ChemCoTBench): what a row asks for and where its answer stands."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.graders import ChemistryGrader
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
"""Where the answer to each sub-task of mol_und stands."""
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
"""The sub-tasks of mol_opt, and the improvement of each from which an answer is among the best."""
TARGET = "Final Target Molecule"
"""Where the answer to mol_opt stands, in some rows with ``_`` in place of the spaces."""
MAX_SMILES = 2000

_SOURCE = re.compile(r"(?:Input Molecule|Molecule SMILES|Source Molecule):\s*[`'\"]?([^\s`'\"]+)")


@dataclass(frozen=True)
class Question:
    """What a row asks for: ``key`` is the answer's in its JSON; changes have a ``source``."""

    task: str
    subtask: str
    key: str
    gold: str = ""
    source: str = ""
    added: str | None = None
    removed: str | None = None


def read_question(row: JsonObject, settings: ChemistryGrader) -> Question:
    """What a row asks for; raises `InvalidRequest` with the field at fault as its ``param``."""
    task, subtask = row.get("task"), row.get("subtask")
    if task not in settings.tasks:
        raise InvalidRequest(f"{task!r} is none of {', '.join(settings.tasks)}", param="task")
    known = {"mol_und": UNDERSTANDING, "mol_edit": EDITS, "mol_opt": BEST}[task]
    if not isinstance(subtask, str) or subtask not in known:
        raise InvalidRequest(f"{subtask!r} is none of {', '.join(known)}", param="subtask")
    if task == "mol_und":
        return Question(task, subtask, UNDERSTANDING[subtask], gold=_gold(row, subtask))
    if task == "mol_opt":
        return Question(task, subtask, TARGET, source=_source(row))
    groups = {field: _group(row, field) for field in EDITS[subtask]}
    added, removed = groups.get("added_group"), groups.get("removed_group")
    return Question(task, subtask, OUTPUT, "", _source(row), added, removed)


def text_of(value: Any) -> str | None:
    """An answer's value as text: of a text, a boolean or a number; None for anything else."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str | int | float):
        return str(value).strip() or None
    return None


def count_of(text: str) -> int | None:
    """The whole number that a text consists of, such as ``2`` or ``2.0``."""
    match = re.fullmatch(r"([+-]?\d{1,9})(?:\.0*)?", text.strip())
    return int(match[1]) if match else None


def _gold(row: JsonObject, subtask: str) -> str:
    gold = text_of(row.get("gt"))
    if gold is None:
        raise InvalidRequest("is missing, or neither text nor number", param="gt")
    if UNDERSTANDING[subtask] == COUNT and count_of(gold) is None:
        raise InvalidRequest(f"{gold!r} is not a whole number", param="gt")
    if len(gold) > MAX_SMILES:
        raise InvalidRequest(f"has more than {MAX_SMILES} characters", param="gt")
    return gold


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
