"""Which tensors of a checkpoint become one layer of an engine."""

from collections.abc import Collection, Sequence


def part_of(name: str) -> str:
    """The part of a model that a tensor belongs to: the attention or the multilayer perceptron of
    a layer, with all its experts; outside of layers, a module.

    No engine fuses tensors of two parts: ``model.layers.3.self_attn.q_proj.weight`` belongs to
    ``model.layers.3.self_attn``, ``model.embed_tokens.weight`` to ``model.embed_tokens``.
    """
    names = name.split(".")
    numbers = [place for place, each in enumerate(names) if each.isdigit()]
    end = numbers[0] + 2 if numbers else len(names) - 1
    return ".".join(names[: min(end, len(names) - 1)])


def tensors_to_load(names: Sequence[str], changed: Collection[str] | None) -> list[str]:
    """Those of ``names`` in a part in which a tensor ``changed``; None: all."""
    if changed is None:
        return list(names)
    parts = {part_of(each) for each in changed}
    return [each for each in names if part_of(each) in parts]
