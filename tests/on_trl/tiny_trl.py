"""A selector in a trainer of TRL on a tiny model; also as a program.

python tiny_trl.py ranks MODEL FILE: writes what each of several processes proposed with each
curriculum, from the start and resumed after three steps.
python tiny_trl.py killed MODEL CURRICULUM FOLDER: kills itself in the fifth step.
"""

import json
import os
import signal
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
    "probe": {"curriculum": "probe"},
}
RESUMED = ("uniform", "mopps", "readout")
"""Curricula that are killed, resumed, and run in several processes."""
# Greedy, since a resumed trainer samples with other random numbers.
SAVED = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3, "top_k": 1}


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
    ask = {"ask": metis.trl.Policy()} if name in ("readout", "probe") else {}
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


def ranks(model, file):
    here, proposed = PartialState(cpu=True), {}
    for name in RESUMED:
        folder = Path(file).with_suffix("") / name
        whole, resumed = selector(name), selector(name)
        settings = SAVED | {"per_device_train_batch_size": 8 // here.num_processes}
        trainer(model, whole, folder, **settings).train()
        again = trainer(model, resumed, folder, **settings)
        again.train(resume_from_checkpoint=str(folder / "checkpoint-3"))
        proposed[name] = [whole.proposed, resumed.proposed]
    Path(f"{file}.{here.process_index}").write_text(json.dumps(proposed))


def killed(model, name, folder):
    chosen = selector(name)

    def killing(**given):
        if given["trainer_state"].global_step == 4:
            Path(folder, "proposed.json").write_text(json.dumps(chosen.proposed))
            os.kill(os.getpid(), signal.SIGKILL)
        return by_place(**given)

    trainer(model, chosen, folder, killing, **SAVED).train()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"ranks": ranks, "killed": killed}[sys.argv[1]](*sys.argv[2:])
