"""`metis export`: its options."""

import argparse
from pathlib import Path

from metis.commands import Commands, add_command
from metis.errors import MetisError
from metis.export.inspect_logs import write_logs
from metis.export.messages import write_messages
from metis.export.write import DTYPES, export

HELP = """\
Writes one of three things for other programs.

A checkpoint of a run as an ordinary Hugging Face folder: configuration, tokenizer with its chat
template, weights with LoRA merged in, and a model card made of the run's facts:

  metis export runs/mine models/mine                    the best checkpoint, or else the last
  metis export runs/mine models/mine --dtype bfloat16   half the size
  metis export runs/mine models/mine --checkpoint 200   of a step whose checkpoint was kept
  metis export runs/mine adapters/mine --adapter        of a run with LoRA the adapter alone

What was said in a run, a survey or an evaluation, as plain JSONL or for the viewer of inspect_ai:

  metis export runs/mine --messages mine.jsonl          a row per rollout: messages, reward, ...
  metis export runs/mine --inspect logs/mine            and then: inspect view --log-dir logs/mine

Checkpoints of verl are put together by verl's own merger, where they have to be.
"""


def add(commands: Commands) -> None:
    """Add the command to the parser's."""
    summary = "a checkpoint as a Hugging Face folder, or transcripts for other viewers"
    parser = add_command(commands, "export", run, summary, HELP)
    option = parser.add_argument
    source = "run folder, or one of its checkpoints; for transcripts a run, survey or evaluation"
    option("source", type=Path, metavar="RUN", help=source)
    new = "the model's folder, which is new, or empty"
    option("target", type=Path, nargs="?", metavar="DIR", help=new)
    kept = "best, last or a step (default: best, or else last)"
    option("--checkpoint", default="", metavar="NAME", help=kept)
    option("--dtype", choices=DTYPES, default="", help="default: as trained, float32")
    option("--adapter", action="store_true", help="of a run with LoRA: not merged, the adapter")
    option("--messages", type=Path, metavar="FILE", help="write all messages to a new JSONL file")
    option("--inspect", type=Path, metavar="DIR", help="write logs of inspect_ai to a new folder")


def run(chosen: argparse.Namespace) -> int:
    """Export, and say how to load it."""
    _check(chosen)
    source = chosen.source.expanduser()
    if chosen.messages:
        count = write_messages(source, target := chosen.messages.expanduser())
        print(f"{count:,} rollouts, one a line: {target}")
    elif chosen.inspect:
        logs = write_logs(source, target := chosen.inspect.expanduser())
        print(f"{sum(logs.values()):,} rollouts in {len(logs):,} logs")
        print(f'inspect view --log-dir "{target}" opens them')
    else:
        _model(chosen)
    return 0


def _check(chosen: argparse.Namespace) -> None:
    """Refuse none or several of the three things, and options of one that is not asked for."""
    named = {"DIR": chosen.target, "--messages": chosen.messages, "--inspect": chosen.inspect}
    asked = [name for name, path in named.items() if path]
    if not asked:
        raise MetisError(
            "metis export: name a folder for the model, or --messages FILE, or --inspect DIR"
        )
    if len(asked) > 1:
        raise MetisError(f"metis export writes one thing at a time: use one of {', '.join(asked)}")
    of_models = {f"--{name}": getattr(chosen, name) for name in ("checkpoint", "dtype", "adapter")}
    for option, value in of_models.items():
        if value and not chosen.target:
            raise MetisError(f"{option} is for models: leave it out with {asked[0]}")


def _model(chosen: argparse.Namespace) -> None:
    target: Path = chosen.target
    export(chosen.source, target, chosen.checkpoint, chosen.dtype, chosen.adapter)
    size = sum(path.stat().st_size for path in target.glob("*.safetensors"))
    print(f"{size / 1e6:,.1f} MB of weights; the model card is {target / 'README.md'}")
    kind = "AutoPeftModelForCausalLM" if chosen.adapter else "AutoModelForCausalLM"
    print(f'{kind}.from_pretrained("{target}") loads it')
