"""The policy: a causal language model and its tokenizer, on one device.

All tokenization is done here. A chat ends with the generation prompt; a reply ends with the
end-of-turn token. On a GPU weights are float32, and forward passes run in bfloat16 autocast.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging as transformers_logging

from metis.core import Chat, Message
from metis.engines import model_files
from metis.engines.loading import LOADING_ERRORS
from metis.engines.local.attention import blocks
from metis.engines.local.model.compiling import compile_layers
from metis.engines.local.model.cuda_graphs import GraphRecorder
from metis.engines.local.model.head import Head
from metis.engines.local.settings import LocalSettings
from metis.engines.tokens.encoding import between_turns, separators
from metis.engines.tokens.packing import ONE_BATCH, Layout
from metis.errors import MetisError, first_line, pip_install

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
"""Chat template for base models without one."""

BATCH_WORK = 1_500_000_000_000
"""Estimate: tokens x parameters that a GPU computes while a padded batch's kernels launch."""

LAUNCH_BOUND = 4_000_000_000_000
"""Estimate: tokens x parameters up to which a forward pass is bound by kernel launches."""


class Policy:
    """The trained model, with its tokenizer."""

    def __init__(self, folder: Path, settings: LocalSettings) -> None:
        quiet: Any = transformers_logging
        quiet.set_verbosity_error()
        quiet.disable_progress_bar()
        self.device = pick_device(settings.device)
        self.wide = self.device.type != "cpu"
        """True on a GPU: prefers few large batches."""
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        """The dtype of forward passes."""
        if self.device.type == "cuda":  # cuDNN SDPA builds a plan per shape, and shapes vary
            torch.backends.cuda.enable_cudnn_sdp(False)
        self.compiled = settings.compile
        if not (folder / "config.json").is_file():
            raise MetisError(
                f"engine.model = {str(folder)!r} holds no model: config.json is missing; name a "
                "folder that transformers has saved"
            )
        with _loading(folder, ": its tokenizer"):
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        with _loading(folder):
            network, missing = read_network(folder)
        if missing:
            raise MetisError(
                f"engine.model = {str(folder)!r} has no weights for {len(missing)} of its parts, "
                f"{missing[0]!r} among them: name a folder that transformers has saved"
            )
        if not self.tokenizer.chat_template:
            self.tokenizer.chat_template = PLAIN_TEMPLATE
        _without_dropout(network)
        self.network = (
            _with_lora(network, settings.lora, model_files.origin(settings.model, folder))
            .to(self.device)
            .eval()
        )
        if settings.checkpointing:
            self._recompute_activations()
        self.scale = self._logit_scale()
        text = network.config.get_text_config()
        self.context = int(getattr(text, "max_position_embeddings", 1 << 30))
        self.stops = self._stop_tokens()
        network.generation_config = generation_config(network, self.tokenizer, self.stops)
        self.plain = blocks.supports(network)
        self.windowed = blocks.windowed(network)
        self.packs = self.plain and blocks.packs(network, self.device, self.dtype)
        """True if rows are packed without padding."""
        self.separators = separators(self.tokenizer)
        self.processed = 0
        self.scored: dict[int, tuple[Chat, list[int]]] = {}
        """Tokens of the chats of the last `score` call, by identity, to reuse in training."""
        self.ends: dict[str, list[int]] = {}
        """A cache of tokenized ends of chats."""
        self.recorder = GraphRecorder(self.device)
        self.weights = sum(parameter.numel() for parameter in network.parameters())
        if self.compiled:
            compile_layers(self.backbone)

    def _recompute_activations(self) -> None:
        """Turn gradient checkpointing on; transformers 5.23 renamed the method."""
        network: Any = self.network
        options: dict[str, Any] = {"use_reentrant": False}
        if not self.compiled:  # compiled layers recompute what was traced
            options["context_fn"] = self._when_recomputed
        enable = getattr(network, "activation_checkpointing_enable", None)
        (enable or network.gradient_checkpointing_enable)(options)

    def _when_recomputed(self) -> tuple[Any, Any]:
        """Contexts of a forward pass and of its recomputation, with the same attention."""
        used = self.base.config.get_text_config()._attn_implementation
        return contextlib.nullcontext(), self.attention(used)

    @property
    def adapted(self) -> bool:
        """True with LoRA."""
        return hasattr(self.network, "peft_config")

    @property
    def base(self) -> Any:
        """The transformers model, without the PEFT wrapper."""
        return self.network.get_base_model() if self.adapted else self.network

    @property
    def backbone(self) -> Any:
        """The decoder without the LM head."""
        return self.base.get_decoder() if hasattr(self.base, "get_decoder") else self.base.model

    @property
    def layout(self) -> Layout:
        """How to pad and split batches: on a GPU each padded batch costs kernel launches."""
        if not self.plain:
            return ONE_BATCH
        spare = BATCH_WORK // self.weights
        return Layout(8, spare, self.packs) if self.wide else Layout(1, 64)

    @property
    def trainable(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self.network.parameters() if parameter.requires_grad]

    def autocast(self) -> Any:
        """Autocast without its weight cache, which a CUDA graph would capture."""
        if self.device.type == "cuda":
            return torch.autocast("cuda", dtype=self.dtype, cache_enabled=False)
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def attention(self, name: str) -> Iterator[None]:
        """Use another attention implementation inside the block."""
        config = self.base.config.get_text_config()
        usual, config._attn_implementation = config._attn_implementation, name
        try:
            yield
        finally:
            config._attn_implementation = usual

    def states(self, past_key_values: Any = None, **arguments: Any) -> torch.Tensor:
        """The last hidden state; with a KV cache, the pass is not compiled."""
        states: torch.Tensor = self._outputs(past_key_values, **arguments).last_hidden_state
        return states

    def every_layer(self, past_key_values: Any = None, **arguments: Any) -> Sequence[torch.Tensor]:
        """All hidden states, embeddings first; the last is post-norm."""
        outputs = self._outputs(past_key_values, output_hidden_states=True, **arguments)
        states: Sequence[torch.Tensor] = outputs.hidden_states
        return states

    def _outputs(self, past_key_values: Any, **arguments: Any) -> Any:
        arguments |= {"past_key_values": past_key_values, "use_cache": past_key_values is not None}
        if not self.compiled:
            return self.backbone(**arguments)
        stance = "default" if past_key_values is None else "force_eager"
        with torch.compiler.set_stance(stance):
            return self.backbone(**arguments)

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.base.get_output_embeddings()(hidden)
        return logits if self.scale == 1 else logits * self.scale

    def head_at(self, temperature: float) -> Head:
        """The LM head as a linear map to the logits at a temperature."""
        scale = self.scale / temperature
        return Head.of(self.base.get_output_embeddings(), scale, self.dtype, self.compiled)

    @torch.no_grad()
    def _logit_scale(self) -> float:
        """The model's constant factor on its logits; any other change to them is refused."""
        tokens = torch.arange(8, device=self.device)[None]
        head = Head.of(self.base.get_output_embeddings(), 1.0, torch.float32)
        plain = head.logits(self.states(input_ids=tokens)).flatten()
        final = self.base(input_ids=tokens, use_cache=False).logits.flatten()
        scale = float(plain @ final / (plain @ plain))
        capped = getattr(self.base.config.get_text_config(), "final_logit_softcapping", None)
        near = torch.allclose(scale * plain, final, atol=1e-3 * float(final.abs().max()))
        if capped or not near:  # a cap is not seen where all logits are small
            raise MetisError(
                f"engine.model: {type(self.base).__name__} transforms its logits in a way that is "
                "not supported; use another model"
            )
        return 1.0 if abs(scale - 1) < 1e-4 else scale

    def _stop_tokens(self) -> set[int]:
        config = self.base.generation_config
        ends = config.eos_token_id if config is not None else None
        stops = {ends} if isinstance(ends, int) else set(ends or ())
        stops |= {self.tokenizer.eos_token_id} - {None}
        if not stops:
            raise MetisError(
                "the tokenizer names no end-of-turn token: set eos_token in tokenizer_config.json"
            )
        return stops

    # Text and tokens

    def encode_chat(self, chat: Chat) -> list[int]:
        """The tokens of a chat, with the generation prompt."""
        tokens: list[int] = self.tokenizer.apply_chat_template(
            list(chat), add_generation_prompt=True, tokenize=True, return_dict=False
        )
        return tokens

    def encode_reply(self, text: str) -> list[int]:
        """The tokens of a reply, without special tokens or EOS."""
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    def encode_turn(self, chat: Chat, ended: bool, answers: Sequence[Message]) -> list[int]:
        """The tokens between the assistant's answer to `chat` and its next turn.

        An answer that `ended` has its own end-of-turn token; a truncated one gets it here.
        """
        ends = [self.tokenizer.decode([stop]) for stop in self.stops] if ended else []
        return self.encode_reply(between_turns(self.render, chat, answers, ends))

    def render(self, chat: Chat) -> str:
        """A chat rendered by the chat template, with the generation prompt."""
        text: str = self.tokenizer.apply_chat_template(
            list(chat), add_generation_prompt=True, tokenize=False
        )
        return text

    def decode(self, tokens: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text


def pick_device(name: str) -> torch.device:
    """The device by name; auto is CUDA, then MPS, then the CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise MetisError(
            f"engine.device = {name!r}: {first_line(error)}; use cpu or auto"
        ) from None
    return device


@contextlib.contextmanager
def _loading(folder: Path, part: str = "") -> Iterator[None]:
    """Turn what loading a model folder may raise into one line that names it."""
    try:
        yield
    except (*LOADING_ERRORS, ImportError) as error:
        raise MetisError(
            f"engine.model = {str(folder)!r}{part} cannot be loaded: {first_line(error)}"
        ) from None


def _without_dropout(network: Any) -> None:
    """Turn dropout off: gradient checkpointing needs training mode."""
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "activation_dropout", "dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def _with_lora(network: Any, rank: int, origin: str) -> Any:
    """Wrap a network with LoRA adapters that name `origin` as their base model."""
    if rank == 0:
        return network
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise MetisError(f"engine.lora = {rank}: needs peft: {pip_install('local')}") from None
    config = LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    adapted: Any = get_peft_model(network, config)
    adapted.peft_config["default"].base_model_name_or_path = origin
    return adapted


def read_network(folder: Path) -> tuple[Any, list[str]]:
    """The model of a folder in float32, and its missing keys."""
    pair: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa", output_loading_info=True
    )
    network, loaded = pair
    return network, sorted(loaded["missing_keys"])


def generation_config(network: Any, tokenizer: Any, stops: set[int]) -> Any:
    """A generation config with all stop tokens and plain sampling.

    The model's own may have a repetition penalty or fewer EOS tokens: exported, the policy would
    generate differently from training and validation.
    """
    ends = sorted(stops)
    padding = tokenizer.pad_token_id
    config: Any = GenerationConfig
    return config(
        bos_token_id=getattr(network.config.get_text_config(), "bos_token_id", None),
        eos_token_id=ends[0] if len(ends) == 1 else ends,
        pad_token_id=ends[0] if padding is None else padding,
    )
