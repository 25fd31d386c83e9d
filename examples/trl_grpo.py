"""A curriculum in TRL's `GRPOTrainer`: the lines marked METIS are all that it adds.

python examples/trl_grpo.py Qwen/Qwen2.5-0.5B-Instruct readout
"""

import sys

import torch
from trl import GRPOConfig, GRPOTrainer

import metis
import metis.trl

ROWS = [
    {"prompt": f"What is {a} * {b}? Answer with the number only.", "answer": str(a * b)}
    for a in range(2, 60)
    for b in range(2, 60)
]
CURRICULA = {
    "uniform": {"curriculum": "uniform"},
    "mopps": {"curriculum": "mopps"},
    "readout": {"curriculum": "metis", "preset": "readout", "ask": metis.trl.Policy()},
}


def right(completions, answer, **_):
    return [float(text.strip() == wanted) for text, wanted in zip(completions, answer, strict=True)]


def train(model, name="readout", steps=100, rows=ROWS, reward=right, **settings):
    on_cpu = not torch.cuda.is_available()
    arguments = {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 4}
    arguments |= {"use_cpu": on_cpu, "bf16": not on_cpu} | settings
    args = GRPOConfig(
        num_generations=8,
        max_steps=steps,
        max_completion_length=16,
        logging_steps=1,
        shuffle_dataset=False,  # METIS
        **{"output_dir": "runs/trl", "report_to": "none"} | arguments,
    )
    batch = args.generation_batch_size // args.num_generations
    selector = metis.Selector(rows, **CURRICULA[name], batch=batch, group=8, steps=steps)  # METIS
    trainer = GRPOTrainer(
        model,
        reward_funcs=metis.trl.watch(selector, reward),  # METIS
        train_dataset=metis.trl.stream(selector),  # METIS
        args=args,
        callbacks=[metis.trl.State(selector)],  # METIS
    )
    trainer.train()
    return trainer


if __name__ == "__main__":
    train(*sys.argv[1:3])
