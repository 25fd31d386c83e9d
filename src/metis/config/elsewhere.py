"""Words of TRL and verl for what is set here under another name."""

SETTINGS = {
    "engine.model": ("model_name_or_path",),
    "engine.learning_rate": ("lr",),
    "engine.max_tokens": ("max_completion_length", "max_response_length", "max_new_tokens"),
    "engine.max_prompt": ("max_prompt_length",),
    "engine.kl": ("beta", "kl_coef", "kl_loss_coef"),
    "engine.clip_low": ("epsilon", "clip_ratio", "clip_ratio_low"),
    "engine.clip_high": ("epsilon_high", "clip_ratio_high"),
    "engine.ratio": ("importance_sampling_level", "loss_mode"),
    "engine.std_division": ("scale_rewards", "norm_adv_by_std_in_grpo"),
    "engine.gradient_clip": ("max_grad_norm", "grad_clip"),
    "engine.minibatch": ("ppo_mini_batch_size",),
    "engine.checkpointing": ("gradient_checkpointing", "enable_gradient_checkpointing"),
    "engine.lora": ("lora_rank", "lora_r"),
    "engine.generation": ("use_vllm",),
    "engine.vllm_memory": ("gpu_memory_utilization", "vllm_gpu_memory_utilization"),
    "batch": ("train_batch_size", "batch_size", "per_device_train_batch_size"),
    "group": ("num_generations", "rollout_n", "n"),
    "steps": ("max_steps", "total_training_steps"),
    "evaluate": ("eval_steps", "test_freq"),
    "checkpoints.every": ("save_steps", "save_freq"),
    "checkpoints.keep": ("save_total_limit", "max_actor_ckpt_to_keep"),
    "sinks": ("report_to", "logger"),
}
"""Settings, and their names in other trainers, whatever section those stand in."""

NAMES = {
    "curriculum": {
        **dict.fromkeys(("grpo", "none", "random", "baseline"), "curriculum=uniform is GRPO"),
        "gspo": "engine.ratio=sequence is GSPO's, under any curriculum",
    },
    "engine": {
        "vllm": "engine.generation=vllm, on the local engine",
        **dict.fromkeys(("trl", "transformers", "hf"), "engine=local trains with transformers"),
    },
}
"""Values of other trainers for the section of that name, and what to write instead."""


def setting(key: str, known: list[str]) -> str | None:
    """The known setting that another trainer calls by the last part of a key."""
    last = key.rpartition(".")[2]
    return next((s for s, words in SETTINGS.items() if last in words and s in known), None)


def name(section: str, word: str) -> str | None:
    """The words to write instead of another trainer's word for a section."""
    return NAMES.get(section, {}).get(word.lower())
