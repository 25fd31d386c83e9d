"""`metis export`: its options."""

import argparse
from pathlib import Path

from metis.commands import Commands, add_command
from metis.export.write import DTYPES, export

HELP = """\
Writes a checkpoint of a run as an ordinary Hugging Face folder: configuration, tokenizer with its
chat template, weights with LoRA merged in, and a model card made of the run's facts.

  metis export runs/mine models/mine                    the best checkpoint, or else the last
  metis export runs/mine models/mine --dtype bfloat16   half the size
  metis export runs/mine models/mine --checkpoint 200   of a step whose checkpoint was kept
  metis export runs/mine adapters/mine --adapter        of a run with LoRA the adapter alone

Checkpoints of verl are put together by verl's own merger, where they have to be.
"""


def add(commands: Commands) -> None:
    """Add the command to the parser's."""
    summary = "a checkpoint as a Hugging Face folder with a model card"
    parser = add_command(commands, "export", run, summary, HELP)
    option = parser.add_argument
    option("source", type=Path, metavar="RUN", help="run folder, or one of its checkpoints")
    option("target", type=Path, metavar="DIR", help="a folder that is new, or empty")
    kept = "best, last or a step (default: best, or else last)"
    option("--checkpoint", default="", metavar="NAME", help=kept)
    option("--dtype", choices=DTYPES, default="", help="default: as trained, float32")
    option("--adapter", action="store_true", help="of a run with LoRA: not merged, the adapter")


def run(chosen: argparse.Namespace) -> int:
    """Export, and say how to load it."""
    target: Path = chosen.target
    export(chosen.source, target, chosen.checkpoint, chosen.dtype, chosen.adapter)
    size = sum(path.stat().st_size for path in target.glob("*.safetensors"))
    print(f"{size / 1e6:,.1f} MB of weights; the model card is {target / 'README.md'}")
    kind = "AutoPeftModelForCausalLM" if chosen.adapter else "AutoModelForCausalLM"
    print(f'{kind}.from_pretrained("{target}") loads it')
    return 0
