"""Parts of run files in which every key decides what is trained, but for those listed here: a key
that nothing reads is refused there, however new it is.

Names are those of verl's trainer/config (0.6 to 0.9), and of slime 0.2.
"""

from collections.abc import Mapping
from typing import Any

from services.contracts.errors import InvalidRequest
from temper.formats.published_runs import RunSettings

_BATCHING = (
    *("ppo_micro_batch_size", "ppo_micro_batch_size_per_gpu", "ppo_max_token_len_per_gpu"),
    *("ppo_infer_max_token_len_per_gpu", "use_dynamic_bsz", "ulysses_sequence_parallel_size"),
    *("forward_micro_batch_size", "forward_micro_batch_size_per_gpu", "rollout_n"),
    *("forward_max_token_len_per_gpu", "use_prefix_grouper"),
)
_PLACEMENT = (
    *("strategy", "fsdp_config", "fsdp", "megatron", "veomni", "torchtitan", "checkpoint"),
    *("profiler", "profile", "nccl_timeout", "load_weight", "data_loader_seed", "engine"),
    *("use_torch_compile", "use_fused_kernels", "use_remove_padding", "enable", "pad_to_length"),
    *("entropy_from_logits_with_chunking", "entropy_from_logits_chunk_size"),
    *("entropy_checkpointing", "calculate_entropy", "calculate_sum_pi_squared"),
    *("sum_pi_squared_checkpointing", "qat"),
)
_WEIGHTS = (
    *("path", "hdfs_path", "hf_config_path", "tokenizer_path", "use_shm", "trust_remote_code"),
    *("external_lib", "enable_gradient_checkpointing", "enable_activation_offload"),
    *("use_remove_padding", "use_liger", "use_fused_kernels", "fused_kernel_options"),
    *("tiled_mlp", "fsdp_config", "mtp", "lora_alpha", "target_modules"),
    *("lora.merge", "lora.alpha", "lora.dropout", "lora.dropout_position", "lora.dtype"),
    *("lora.freeze_vision_model", "lora.freeze_vision_projection", "lora.freeze_language_model"),
    *("lora.lora_A_init_method", "lora.lora_B_init_method", "lora.target_modules", "lora.type"),
)
_OFFLOADED = (
    "optimizer_cpu_offload",
    "optimizer_offload_fraction",
    "use_precision_aware_optimizer",
)
_OPTIMIZER = (
    *("total_training_steps", "min_lr_ratio", "num_cycles", "zero_indexed_step", "lr_decay_ratio"),
    *("lr_decay_steps", "lr_wsd_decay_style", "lr_wsd_decay_steps", "min_lr"),
    *(
        "use_checkpoint_opt_param_scheduler",
        "override_optimizer_config.overlap_cpu_optimizer_d2h_h2d",
    ),
    *(f"override_optimizer_config.{name}" for name in _OFFLOADED),
    *(f"muon_{name}" for name in ("momentum", "num_ns_steps", "scale_mode", "extra_scale_factor")),
    *(f"muon_{name}" for name in ("coefficient_type", "fp32_matmul_prec", "scalar_optimizer")),
    *(f"muon_{name}" for name in ("split_qkv", "tp_mode", "use_nesterov")),
)
"""How a rate that is not constant falls, which is refused by name, Muon's parameters, and where the
optimizer's states are."""
_OF_OTHER_LOSSES = (
    *("clip_cov_ratio", "clip_cov_lb", "clip_cov_ub", "kl_cov_ratio", "ppo_kl_coef", "dro_beta"),
)
"""Parameters of single losses, which count where their loss is chosen and are read there."""

INFRASTRUCTURE: Mapping[str, tuple[str, ...]] = {
    "algorithm": (
        *("kl_ctrl", "kl_penalty", "pf_ppo", "norm_adv_by_std_in_grpo"),
        *("filter_groups.max_inflight_gen_batches", "rollout_correction.loss_type"),
        *("rollout_correction.rollout_is_threshold", "rollout_correction.rollout_rs_threshold"),
    ),
    "actor_rollout_ref.actor": (
        *(*_BATCHING, *_PLACEMENT, "ppo_mini_batch_size", "kl_loss_type", "kl_loss_coef"),
        *(f"policy_loss.{name}" for name in _OF_OTHER_LOSSES),
        *("clip_ratio", "clip_ratio_low", "clip_ratio_high", "tau_pos", "tau_neg"),
        *(f"optim.{name}" for name in _OPTIMIZER),
    ),
    "actor_rollout_ref.model": _WEIGHTS,
}
"""Keys, or sections, below each that change nothing of what is trained, or only where another key,
which is refused, makes them count."""
CRITIC: Mapping[str, tuple[str, ...]] = {
    "critic": (
        *(*_BATCHING, *_PLACEMENT, *(f"model.{name}" for name in _WEIGHTS)),
        *(f"optim.{name}" for name in _OPTIMIZER),
    )
}
"""The same where a critic is trained."""
SLIME = (
    *("--adam", "--advantage", "--attention-dropout", "--clip", "--critic", "--end-weight-decay"),
    *(
        "--entropy",
        "--eps-",
        "--freeze",
        "--gamma",
        "--hidden-dropout",
        "--kl",
        "--lambd",
        "--loss",
    ),
    *("--lr", "--mask-", "--min-lr", "--moe-aux", "--moe-z", "--mtp-loss", "--normalize"),
    *("--optimizer", "--ref-", "--reward", "--rollout-stop", "--start-weight-decay", "--tis"),
    *("--use-kl", "--use-op", "--use-tis", "--use-unbiased", "--value-", "--weight-decay"),
)
"""Beginnings of arguments of slime, and of Megatron-LM, that decide what is trained."""
SLIME_INFRASTRUCTURE = (
    *("--critic-load", "--critic-num-gpus-per-node", "--critic-num-nodes", "--critic-save"),
    *("--lr-decay-iters", "--lr-wsd-decay-iters", "--lr-wsd-decay-style", "--min-lr"),
    *("--optimizer-cpu-offload", "--optimizer-offload-fraction", "--ref-ckpt-step", "--ref-load"),
    *("--reward-key", "--eval-reward-key", "--kl-loss-type"),
)
"""Those that do not, or only for a rate that is not constant; the job file names the reward."""
_TARGET = "._target_"
"""The class that a section configures."""
_REPLACED = ("data.custom_cls", "data.sampler", "data.datagen")
"""Sections that replace the data by code."""


def check_sections(run: RunSettings, *, critic: bool) -> None:
    """Raise InvalidRequest, which names the key, for one that nothing has read in a section that
    decides what is trained. A value of false, 0 or nothing asks for nothing."""
    sections = {**INFRASTRUCTURE, **(CRITIC if critic else {}), **dict.fromkeys(_REPLACED, ())}
    for key in run.unread():
        for section, known in sections.items():
            if not key.startswith(f"{section}.") or key.endswith(_TARGET):
                continue
            name = key.removeprefix(f"{section}.")
            if not _is_below(name, known) and _asks(run.peek(key)):
                raise InvalidRequest(
                    f"{key} is unknown, in a section that decides what is trained: leave it out, "
                    "or set what it stands for in the job file",
                    param=key,
                )


def check_arguments(run: RunSettings) -> None:
    """The same for the arguments of a script of slime, by their beginnings."""
    for key in run.unread():
        if key.startswith(SLIME) and key not in SLIME_INFRASTRUCTURE and _asks(run.peek(key)):
            raise InvalidRequest(
                f"{key} is unknown, and may decide what is trained: leave it out, or set what it "
                "stands for in the job file",
                param=key,
            )


def _is_below(name: str, known: tuple[str, ...]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in known)


def _asks(value: Any) -> bool:
    return value not in (None, False, 0, "", [], {})
