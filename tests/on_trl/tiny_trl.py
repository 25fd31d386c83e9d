"""A selector in a trainer of TRL on a tiny model; also as a program, for several processes.

python tiny_trl.py MODEL CURRICULUM STEPS FILE: writes what each process proposed.
"""

import json
import sys
import warnings
import zlib
from pathlib import Path

from accelerate import PartialState
from trl import GRPOConfig, GRPOTrainer

import metis
import metis.trl

ROWS = [{"prompt": f"{a} + {b} =", "sum": a + b} for a in range(8) for b in range(8)]
CURRICULA = {
    "uniform": {"curriculum": "uniform"},
    "mopps": {"curriculum": "mopps"},
    "readout": {"curriculum": "metis", "preset": "readout"},
}


def by_prompt(prompts, **_):
    """A reward that depends on the prompt alone."""
    return [float(zlib.crc32(str(prompt).encode()) % 2) for prompt in prompts]


def by_place(prompts, **_):
    """A reward that differs in a group, and does not depend on the answer."""
    return [float(zlib.crc32(f"{i} {prompt}".encode()) % 2) for i, prompt in enumerate(prompts)]


def by_answer(completions, **_):
    return [float(zlib.crc32(text.encode()) % 2) for text in completions]


class Recorded(metis.Selector):
    """A selector that remembers what it proposed."""

    def __init__(self, *given, **settings):
        super().__init__(*given, **settings)
        self.proposed = []

    def propose(self):
        picks = super().propose()
        self.proposed.append([pick.key for pick in picks])
        return picks


def selector(name, rows=ROWS, **settings):
    ask = {"ask": metis.trl.Policy()} if name == "readout" else {}
    sizes = {"batch": 4, "group": 2, "steps": 20}
    return Recorded(rows, **CURRICULA[name], **ask, **sizes | settings)


def trainer(model, chosen, folder, rewards=by_prompt, kind=(GRPOConfig, GRPOTrainer), **settings):
    config, trainer_class = kind
    arguments = {
        "output_dir": str(folder),
        "max_steps": 4,
        "num_generations": chosen.group,
        "per_device_train_batch_size": 8,
        "max_completion_length": 4,
        "learning_rate": 1e-3,
        "logging_steps": 1,
        "save_strategy": "no",
        "shuffle_dataset": False,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": "none",
        "disable_tqdm": True,
    }
    return trainer_class(
        str(model),
        reward_funcs=metis.trl.watch(chosen, rewards),
        train_dataset=metis.trl.stream(chosen),
        args=config(**arguments | settings),
        callbacks=[metis.trl.State(chosen)],
    )


def main(model, name, steps, file):
    warnings.simplefilter("ignore")
    here = PartialState(cpu=True)
    chosen, folder = selector(name), Path(file).with_suffix("")
    size = 8 // here.num_processes
    trainer(model, chosen, folder, max_steps=int(steps), per_device_train_batch_size=size).train()
    Path(f"{file}.{here.process_index}").write_text(json.dumps(chosen.proposed))


if __name__ == "__main__":
    main(*sys.argv[1:])
