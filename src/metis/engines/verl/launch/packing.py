"""Judgments that need several sequences in a row of the update: refused where those would mix.

The tokenizer decides: values whose tokens part at the last one alone share a single sequence.
"""

from typing import Any

from transformers import AutoConfig, AutoTokenizer

from metis.core.needs import Needs
from metis.engines.tokens.choices import ChoiceTree
from metis.errors import require

ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}
"""Kinds of layers that begin anew at position 0; others carry a state from row to row."""
REMEDY = (
    "the values of a judgment have several tokens, which are trained in packed sequences; "
    "use curriculum.judge.scale=passes"
)


def check_on_disk(config: Any, needs: Needs) -> None:
    """The same checks ahead of a start, where the model's files are on this disk."""
    model = config.actor_rollout_ref.model
    if not needs.choices:
        return
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            model.path, **_trust(model), local_files_only=True
        )
    except (OSError, ValueError):
        return
    check_choices(config, needs, tokenizer, model.path)


def check_choices(config: Any, needs: Needs, tokenizer: Any, folder: str) -> None:
    """Refuse rows or layers that the choices of a curriculum cannot be trained with."""
    replies = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in needs.choices]
    if len(ChoiceTree.of(replies).sequences) > 1:
        require_packing(config.actor_rollout_ref.model, folder)


def require_packing(model: Any, folder: str) -> None:
    """Sequences of one row keep apart where rows are packed and layers look at positions."""
    key, packed = "actor_rollout_ref.model.use_remove_padding", model.use_remove_padding
    require(packed, key, packed, f"{REMEDY}, or set it to True")
    model_config = AutoConfig.from_pretrained(folder, **_trust(model))
    kinds = set(getattr(model_config.get_text_config(), "layer_types", None) or ())
    recurrent = sorted(kinds - ATTENTION)
    require(not recurrent, "actor_rollout_ref.model.path", model.path, f"{recurrent}: {REMEDY}")


def _trust(model: Any) -> dict[str, Any]:
    return {"trust_remote_code": model.get("trust_remote_code", False)}
