"""What the headers of safetensors say of a model, without its weights."""

from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

LARGEST_HEADER = 100 * 2**20
_METADATA = "__metadata__"


class _Tensor(BaseModel):
    shape: list[int] = []


_HEADER = TypeAdapter(dict[str, _Tensor])


def tensor_shapes(path: Path) -> dict[str, list[int]]:
    """The shapes of the tensors in a file, by name; empty for a damaged header."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = file.read(min(size, LARGEST_HEADER))
    try:
        tensors = _HEADER.validate_json(header)
    except ValidationError:
        return {}
    return {name: tensor.shape for name, tensor in tensors.items() if name != _METADATA}


def module_names(folder: Path) -> set[str]:
    """The full names of all modules with tensors in a folder; empty without safetensors."""
    return {
        name.rpartition(".")[0]
        for path in folder.glob("*.safetensors")
        for name in tensor_shapes(path)
    }
