"""Checks in the vllm runtime that vLLM's own engines take what a learner sends.

    python -m tests.support.engines.received_weights

Without a GPU only the calls of CUDA are replaced: opening another process's memory, streams, and
NCCL, whose members share a queue. Prints what was checked; raises AssertionError.
"""

import inspect
import json
import queue
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.multiprocessing.reductions import rebuild_cuda_tensor
from vllm.distributed.weight_transfer import WeightTransferEngineFactory
from vllm.distributed.weight_transfer.nccl_common import NCCLWeightTransferInitInfo
from vllm.v1.worker.worker_base import WorkerBase

from services.inference.vllm.launch import WEIGHT_BACKEND
from services.inference.weights import cuda_handles
from services.inference.weights.worker import WeightWorker
from services.trainer.rl import direct
from services.trainer.rl.learner import sending

SHAPES = {"a.norm.weight": (5,), "a.attn.q.weight": (7, 4), "b.attn.q.weight": (300, 3)}
LIMIT = 64
"""Bytes of a chunk: less than the largest tensor."""
UUID = "GPU-1"


class Loaded(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """A model that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[str, Tensor] = {}

    def load_weights(self, weights: Any) -> None:
        self.given |= {name: each.clone() for name, each in weights}


def weights(dtype: torch.dtype) -> list[tuple[str, Tensor]]:
    generator = torch.Generator().manual_seed(3)
    made: list[tuple[str, Tensor]] = [
        (name, torch.randn(shape, generator=generator).to(dtype)) for name, shape in SHAPES.items()
    ]
    return [*made, ("a.count", torch.arange(3))]


def engine_of(model: Loaded) -> Any:
    """The engine that a worker would build."""
    added = [each for each in dir(WeightWorker) if not each.startswith("__")]
    assert not any(hasattr(WorkerBase, each) for each in added)  # vLLM refuses such a mixture
    config = SimpleNamespace(backend=WEIGHT_BACKEND)
    vllm_config: Any = SimpleNamespace(parallel_config=None, model_config=None)
    return WeightTransferEngineFactory.create_engine(
        config, vllm_config, torch.device("cpu"), model
    )


@contextmanager
def updating(engine: Any) -> Iterator[None]:
    """An update of a model without layers of vLLM's."""
    with (
        mock.patch("vllm.model_executor.model_loader.reload.inplace.initialize_layerwise_reload"),
        mock.patch("vllm.model_executor.model_loader.reload.inplace.finalize_layerwise_reload"),
    ):
        engine.start_weight_update()
        yield
        engine.finish_weight_update()


def received(model: Loaded, sent: list[tuple[str, Tensor]], dtype: torch.dtype) -> None:
    """Assert that a model got all that was sent."""
    assert model.given.keys() == dict(sent).keys()
    for name, each in sent:
        expected = each.to(dtype) if each.is_floating_point() else each
        assert model.given[name].dtype == expected.dtype
        assert torch.equal(model.given[name], expected), name


def check_buffers() -> None:
    """Weights pass through a shared buffer, in chunks, by JSON."""
    names = list(inspect.signature(rebuild_cuda_tensor).parameters)
    places = {
        "tensor_size": cuda_handles._SIZE,
        "storage_device": cuda_handles._DEVICE,
        "storage_handle": cuda_handles._STORAGE,
        "storage_size_bytes": cuda_handles._BYTES,
        "storage_offset_bytes": cuda_handles._OFFSET,
        "ref_counter_handle": cuda_handles._COUNTER,
        "ref_counter_offset": cuda_handles._COUNTER_OFFSET,
        "event_handle": cuda_handles._EVENT,
        "event_sync_required": cuda_handles._EVENT_SYNC,
    }
    assert {name: names.index(name) for name in places} == places
    exported: dict[bytes, Tensor] = {}

    def reduce(buffer: Tensor) -> tuple[Any, tuple[Any, ...]]:
        exported[b"\x00handle"] = buffer
        storage = torch.storage.TypedStorage
        head = (torch.Tensor, buffer.size(), buffer.stride(), 0, storage, buffer.dtype, 0)
        return None, (*head, b"\x00handle", buffer.numel(), 0, False, b"\xffc", 3, b"", False)

    def rebuild(*handle: Any) -> Tensor:
        assert len(handle) == len(names)
        assert handle[6] == 5, "the receiver's device"
        assert handle[11:] == (b"\xffc", 3, b"", False)
        return exported[handle[7]][: handle[1][0]]

    model = Loaded()
    engine = engine_of(model)
    engine.device = engine._buffers.device = SimpleNamespace(index=5)
    sent = weights(torch.float32)
    with ExitStack() as stack:
        for name, replaced in {
            "torch.multiprocessing.reductions.rebuild_cuda_tensor": rebuild,
            "torch.cuda.get_device_properties": lambda _: SimpleNamespace(uuid=UUID),
            "torch.cuda.current_stream": lambda: SimpleNamespace(synchronize=lambda: None),
            "torch.cuda.ipc_collect": lambda: None,
        }.items():
            stack.enter_context(mock.patch(name, replaced))
        stack.enter_context(mock.patch.object(sending, "reduce_tensor", reduce))
        stack.enter_context(mock.patch.object(sending, "CHUNK_BYTES", LIMIT))
        sender = sending.WeightSender(sent, torch.bfloat16)
        for version in (1, 2):
            chunks = 0
            with updating(engine):
                while (chunk := sender.next_chunk()) is not None:
                    engine.update_weights(json.loads(json.dumps({**chunk, "version": version})))
                    chunks += 1
            sender.end_chunks()
            assert chunks > 1
            assert engine._version == version
            received(model, sent, torch.bfloat16)
            for _, each in sent:
                each.mul_(2)
            model.given.clear()


class Members:
    """A group of two: what the first sends, the other gets."""

    def __init__(self) -> None:
        self._sent: queue.Queue[Tensor] = queue.Queue()

    def send(self, tensors: list[Tensor], root: int, *, comms: list[Any]) -> None:
        assert (root, comms) == (0, [self])
        self._sent.put(tensors[0].clone())

    def broadcast(self, tensor: Tensor, src: int) -> None:
        assert src == 0
        got = self._sent.get(timeout=30)
        assert got.shape == tensor.shape, "both sides cut the stream alike"
        tensor.copy_(got)

    def destroy(self) -> None:
        self._sent = queue.Queue()


def check_broadcast() -> None:
    """Weights pass through a broadcast, cut alike on both sides."""
    assert sending.CHUNK_BYTES == direct.CHUNK_BYTES
    group, model = Members(), Loaded()
    engine, sent = engine_of(model), weights(torch.float32)
    joined: list[Any] = []
    stream = SimpleNamespace(synchronize=lambda: None)
    packed = "vllm.distributed.weight_transfer.packed_tensor"

    def join(info: NCCLWeightTransferInitInfo, _: Any) -> Members:
        assert info.nccl_unique_id_bytes == bytes(range(128))
        assert (info.rank_offset, info.world_size) == (1, 2)
        joined.append(info)
        return group

    with ExitStack() as stack:
        for name, replaced in {
            f"{packed}._get_streams": lambda *_: (stream, stream),
            "torch.accelerator.current_device_index": lambda: 0,
            "torch.cuda.stream": lambda _: nullcontext(),
            "torch.cuda.current_stream": lambda: stream,
            "vllm.distributed.weight_transfer.nccl_engine.worker_init_process_group": join,
        }.items():
            stack.enter_context(mock.patch(name, replaced))
        replaced_nccl = SimpleNamespace(
            unique_id=lambda: bytes(range(128)),
            init_rank=lambda size, name, rank: (
                group if (size, name, rank) == (2, bytes(range(128)), 0) else None
            ),
            all_reduce=lambda tensors, comms: (tensors, comms),
            broadcast=group.send,
        )
        stack.enter_context(mock.patch.object(sending, "nccl", replaced_nccl))
        sender = sending.WeightSender(sent, torch.bfloat16)
        described = direct.group_of(sender.make_group(), 1)
        for limit in (LIMIT, direct.CHUNK_BYTES):
            stack.enter_context(mock.patch.object(sending, "CHUNK_BYTES", limit))
            info = json.loads(json.dumps({**described, "packed_buffer_size_bytes": limit}))
            engine.init_transfer_engine(engine.parse_init_info({"group": info}))
            sender.join_group("engine", 2)
            model.given.clear()
            with updating(engine):
                sending_side = threading.Thread(target=sender.broadcast, args=("engine",))
                sending_side.start()
                engine.update_weights({**sender.describe(), "version": limit})
                sending_side.join(30)
            received(model, sent, torch.bfloat16)
            assert engine._version == limit
        assert [each.packed for each in joined] == [True, True]


def check_versions() -> None:
    """Changes are loaded over their base only, and never over a mixture."""
    model = Loaded()
    engine = engine_of(model)
    engine.init_transfer_engine(engine.parse_init_info({"version": 4}))
    with tempfile.TemporaryDirectory() as folder:
        save_file(dict(weights(torch.float32)), Path(folder) / "model.safetensors")

        def update(version: int, base: int | None, names: list[str] | None) -> None:
            with updating(engine):
                engine.update_weights(
                    {"folder": folder, "version": version, "base": base, "names": names}
                )

        update(5, 4, ["a.attn.q.weight"])
        assert model.given.keys() == {"a.attn.q.weight"}
        assert engine._version == 5
        try:
            update(7, 6, ["a.attn.q.weight"])
        except ValueError as error:
            assert "version 6" in str(error)  # noqa: PT017 - no pytest here
        else:
            raise AssertionError("another base was accepted")
        update(7, None, None)
        assert model.given.keys() == dict(weights(torch.float32)).keys()

        # Killed in the middle, it has no version that changes could be loaded over.
        engine.start_weight_update = lambda: None
        engine.receive_weights(engine.parse_update_info({"folder": folder, "version": 8}))
        try:
            update(9, 8, ["a.attn.q.weight"])
        except ValueError:
            return
        raise AssertionError("changes were loaded over a mixture")


if __name__ == "__main__":
    for check in (check_buffers, check_broadcast, check_versions):
        check()
        print(check.__name__)
