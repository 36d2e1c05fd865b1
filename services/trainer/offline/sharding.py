"""The arguments with which LLaMA-Factory's trainer shards a model."""

from typing import Any

from services.contracts.sharding import Sharding


def sharding_arguments(sharding: Sharding) -> dict[str, Any]:
    """Of DeepSpeed or FSDP; precision, batch and clipping are the trainer's ("auto")."""
    if sharding.is_zero:
        return {"deepspeed": _zero(sharding)}
    return {
        "fsdp": f"full_shard auto_wrap{' offload' if sharding.offloads else ''}",
        "fsdp_config": {"version": 2, "state_dict_type": "FULL_STATE_DICT"},
    }


def _zero(sharding: Sharding) -> dict[str, Any]:
    """As LLaMA-Factory's own examples/deepspeed, in communication that gloo has as well."""
    zero: dict[str, Any] = {
        "stage": 3 if sharding.splits_weights else 2,
        "overlap_comm": False,
        "contiguous_gradients": True,
    }
    if sharding.splits_weights:
        zero |= {
            "reduce_bucket_size": "auto",
            "stage3_prefetch_bucket_size": "auto",
            "stage3_param_persistence_threshold": "auto",
            "stage3_gather_16bit_weights_on_model_save": True,
        }
    if sharding.offloads:
        place = {"device": "cpu", "pin_memory": False}
        zero["offload_optimizer"] = place
        if sharding.splits_weights:
            zero["offload_param"] = place
    return {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "zero_optimization": zero,
    }
