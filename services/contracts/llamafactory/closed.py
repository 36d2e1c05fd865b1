"""Arguments of LLaMA-Factory that are closed to clients, and why."""

from enum import StrEnum


class ArgumentProblem(StrEnum):
    """Why an argument was refused."""

    UNKNOWN = "unknown"
    PLATFORM_OWNED = "platform_owned"  # the platform sets it itself
    UNSAFE = "unsafe"  # it would run foreign code, or read or write where a client must not
    WRONG_TYPE = "wrong_type"
    BAD_CHOICE = "bad_choice"
    NO_EFFECT = "no_effect"  # the stage does not read it


def refusal(key: str) -> tuple[ArgumentProblem, str] | None:
    """Why a known argument is closed to clients, or None for one that is open."""
    for problem, table in (
        (ArgumentProblem.PLATFORM_OWNED, _PLATFORM_OWNED),
        (ArgumentProblem.UNSAFE, _UNSAFE),
        (ArgumentProblem.NO_EFFECT, _WITHOUT_EFFECT),
    ):
        for reason, keys in table.items():
            if key in keys or any(k.endswith("*") and key.startswith(k[:-1]) for k in keys):
                return problem, reason
    return None


# Reason -> names; a name ending in * stands for everything that starts so.
_PLATFORM_OWNED: dict[str, set[str]] = {
    "the model is the request's own field": {
        "adapter_folder",
        "adapter_name_or_path",
        "model_name_or_path",
        "model_revision",
    },
    "a model has one adapter; merge it first, and train from the merged model": {
        "create_new_adapter"
    },
    "the data are the request's own fields": {
        "dataset",
        "dataset_dir",
        "data_shared_file_system",
        "eval_dataset",
        "media_dir",
        "interleave_probs",
        "mix_strategy",
        "overwrite_cache",
        "streaming",
        "tokenized_path",
    },
    "it is the request's own field": {"seed", "template"},
    "the method is the request's own field": {"finetuning_type", "stage"},
    "the platform decides what a job runs": {
        "do_eval",
        "do_predict",
        "do_train",
        "enable_jit_checkpoint",
        "eval_num_beams",
        "generation_config",
        "restore_callback_states_from_checkpoint",
    },
    "it is the request's field generation": {"max_new_tokens", "predict_with_generate"},
    "the platform chooses where files are kept": {
        "cache_dir",
        "logging_dir",
        "offload_folder",
        "output_dir",
        "overwrite_output_dir",
        "profiler_output_dir",
        "resume_from_checkpoint",
        "save_on_each_node",
        "save_only_model",
    },
    "the platform reports the progress of jobs": {
        "debug",
        "disable_tqdm",
        "enable_torch_profiler",
        "include_num_input_tokens_seen",
        "log_level*",
        "log_on_each_node",
        "logging_nan_inf_filter",
        "plot_loss",
        "print_param_status",
        "profile*",
        "project",
        "report_to",
        "run_name",
        "swanlab_*",
        "trackio_*",
        "use_swanlab",
    },
    "nothing is published from a job": {
        "export_*",
        "hub_*",
        "push_to_hub*",
    },
    "access tokens are the operator's settings": {"hf_hub_token", "ms_hub_token", "om_hub_token"},
    "the platform assigns devices and processes": {
        "local_rank",
        "master_addr",
        "master_port",
        "quantization_device_map",
        "ray_*",
        "use_cpu",
    },
    "models are served elsewhere": {"infer_*", "sglang_*", "vllm_*"},
    "it belongs to another training stage": {"ref_model*", "reward_model*"},
    "rows stay as the trainer prepares them": {
        "label_names",
        "length_column_name",
        "remove_unused_columns",
    },
}
_WITHOUT_EFFECT: dict[str, set[str]] = {
    "only text is trained on": {
        "audio_sampling_rate",
        "crop_to_patches",
        "image_*",
        "use_audio_in_video",
        "video_*",
    },
    "generation.max_tokens and num_beams take its place": {
        "generation_max_length",
        "generation_num_beams",
        "max_length",
    },
    "it is read where predictions are stored, which a training does not do": {
        "skip_special_tokens"
    },
    "data are not streamed": {"buffer_size"},
    "validation files with metrics of their own are the request's validation_files": {
        "eval_on_each_dataset"
    },
    "the library does not read it": {"sortish_sampler"},
    "the library leaves it off, or fails with rows longer than the model's positions; "
    "rope_parameters in the config.json of a registered model take its place": {"rope_scaling"},
    "its training type oft is not offered": {"oft_*"},
    "its package is not in the training runtime": {
        *("apollo_*", "badam_*", "galore_*", "liger_kernel_config", "optim_target_modules"),
    },
}
_UNSAFE: dict[str, set[str]] = {
    "code that comes with a model is not run": {"trust_remote_code"},
    "hyperparameters.sharding takes its place": {"deepspeed"},
    "it names a file on the server": {
        "hyper_parallel_args",
        "kt_*",
        "new_special_tokens_config",
    },
    "sequences are not split over GPUs, which data parallelism and hyperparameters.sharding use": {
        "parallelism_config"
    },
    "it loads a training backend that is not installed": {
        "mixture_of_depths",
        "use_hyper_parallel",
        "use_kt",
        "use_mca",
        "use_unsloth*",
        "use_v1_kernels",
    },
}
