"""Checks that scored judgments with several packed sequences per row stay separate.

That depends on the tokenizer: choices that differ only in their last token need one sequence.
"""

from typing import Any

from transformers import AutoConfig, AutoTokenizer

from metis.core.needs import Needs
from metis.engines.tokens.choices import ChoiceTree
from metis.errors import require

ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}
"""Layer types that reset at position 0; others (recurrent) carry state across packed sequences."""
REMEDY = (
    "the judge's choices have several tokens, which are trained as packed sequences; "
    "use curriculum.judge.scale=passes"
)


def check_on_disk(config: Any, needs: Needs) -> None:
    """Check before a start, if the model's files are on this disk."""
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
    """Refuse settings or models with which the judge's choices cannot be trained."""
    replies = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in needs.choices]
    if len(ChoiceTree.of(replies).sequences) > 1:
        require_packing(config.actor_rollout_ref.model, folder)


def require_packing(model: Any, folder: str) -> None:
    """Require sequence packing (remove padding) and attention layers that reset at position 0."""
    key, packed = "actor_rollout_ref.model.use_remove_padding", model.use_remove_padding
    require(packed, key, packed, f"{REMEDY}, or set it to True")
    model_config = AutoConfig.from_pretrained(folder, **_trust(model))
    kinds = set(getattr(model_config.get_text_config(), "layer_types", None) or ())
    recurrent = sorted(kinds - ATTENTION)
    require(not recurrent, "actor_rollout_ref.model.path", model.path, f"{recurrent}: {REMEDY}")


def _trust(model: Any) -> dict[str, Any]:
    return {"trust_remote_code": model.get("trust_remote_code", False)}
