"""The process that reads molecules: ``python -m services.rewards.chemistry.child``.

It runs with the Python of the runtime ``grading`` and answers requests (see
`services.core.process.worker_child`) by their ``measure``:

- ``scaffold`` of ``answer`` and ``gold``, the similarity of their Murcko scaffolds, a number, or
  null where the answer is not SMILES;
- ``edit`` of ``source`` into ``answer`` with the groups ``added`` and ``removed``, true or false,
  or null where the answer is not SMILES;
- ``improvement`` of ``source`` to ``answer`` in ``property``, [difference, whether the scaffold is
  the same, 0 or 1, similarity of the scaffolds],
  or null where the answer is not SMILES;
- ``scaffolds`` of ``source`` and ``answer``, the last two numbers of ``improvement`` alone, or
  null where the answer is not SMILES;
- ``canonical`` of ``answer``, its canonical SMILES, or null where it is not SMILES;
- ``reaction`` of ``answer`` and ``gold``, [whether they are the same, 0 or 1, similarities of
  RDKit's, MACCS' and Morgan fingerprints], or null where the answer is not SMILES.

A gold or a source that is not SMILES is an error. The argument ``mol_opt`` loads what
``improvement`` needs at once, so that no answer's time is spent on it.
"""

import resource
import sys
from typing import Any

from services.core.process.worker_child import Answer, serve

MAX_MEMORY_BYTES = 4 << 30


def load() -> Answer:
    """Import RDKit; the parent is notified of a failure."""
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from rdkit import RDLogger  # noqa: PLC0415 - its memory is limited first

    from services.rewards.chemistry import structures  # noqa: PLC0415 - its memory is limited first

    RDLogger.DisableLog("rdApp.*")

    def known(request: dict[str, Any], field: str) -> Any:
        molecule = structures.molecule_of(request[field])
        if molecule is None:
            raise ValueError(f"the row's {field} is not SMILES: {request[field][:200]!r}")
        return molecule

    def scaffold(request: dict[str, Any]) -> float | None:
        gold, answer = known(request, "gold"), structures.molecule_of(request["answer"])
        return None if answer is None else structures.scaffold_kept(gold, answer)[1]

    def edit(request: dict[str, Any]) -> bool | None:
        source, answer = known(request, "source"), structures.molecule_of(request["answer"])
        added, removed = request["added"], request["removed"]
        return None if answer is None else structures.is_edited(source, answer, added, removed)

    def reaction(request: dict[str, Any]) -> list[float] | None:
        gold, answer = known(request, "gold"), structures.molecule_of(request["answer"])
        if answer is None:
            return None
        return [float(structures.is_same(answer, gold)), *structures.similarities(answer, gold)]

    def scaffolds(request: dict[str, Any]) -> tuple[float, float] | None:
        source, answer = known(request, "source"), structures.molecule_of(request["answer"])
        return None if answer is None else structures.scaffold_kept(source, answer)

    def canonical(request: dict[str, Any]) -> str | None:
        answer = structures.molecule_of(request["answer"])
        return None if answer is None else structures.canonical_smiles(answer)

    measures: dict[str, Answer] = {
        "canonical": canonical,
        "scaffold": scaffold,
        "edit": edit,
        "reaction": reaction,
        "scaffolds": scaffolds,
    }
    if "mol_opt" in sys.argv[1:]:
        from services.rewards.chemistry.properties import PROPERTIES  # noqa: PLC0415 - slow

        def improvement(request: dict[str, Any]) -> list[float] | None:
            source, answer = known(request, "source"), structures.molecule_of(request["answer"])
            if answer is None:
                return None
            measure = PROPERTIES[request["property"]]
            return [
                measure(answer) - measure(source),
                *structures.scaffold_kept(source, answer),
            ]

        methane = structures.molecule_of("C")
        for measure in PROPERTIES.values():
            # The first call of synthetic accessibility reads its table of fragments.
            measure(methane)
        measures["improvement"] = improvement

    return lambda request: measures[request["measure"]](request)


if __name__ == "__main__":
    serve(load)
