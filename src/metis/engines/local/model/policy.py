"""The policy: a causal language model with its tokenizer, on one device.

Text becomes tokens here and nowhere else. A chat ends with the header of the assistant's turn; a
reply ends with the end-of-turn token. On a GPU the weights are kept in float32 and the passes run
in bfloat16.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer
from transformers.utils import logging as transformers_logging

from metis.core import Chat, Message
from metis.engines import model_files
from metis.engines.loading import LOADING_ERRORS
from metis.engines.local.attention import blocks
from metis.engines.local.model.cuda_graphs import Recorder
from metis.engines.local.model.network import generation_config, read_network
from metis.engines.local.settings import Local
from metis.engines.tokens.encoding import between_turns, separators
from metis.engines.tokens.packing import ONE_STRIP, Layout
from metis.errors import MetisError, first_line, pip_install

PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
"""For tokenizers of base models, which have no chat template."""

LOGIT_CHUNK = 1 << 28
"""Logits computed at once, in numbers; more are recomputed in the backward pass."""

STRIP = 1_500_000_000_000
"""Estimate: tokens times weights that pass a GPU while the kernels of a strip are launched."""

BRIEF = 4_000_000_000_000
"""Estimate: tokens times weights up to which a pass mostly waits for its kernels' launch."""


class Policy:
    """A model that answers chats and can be trained."""

    def __init__(self, folder: Path, settings: Local) -> None:
        quiet: Any = transformers_logging
        quiet.set_verbosity_error()
        quiet.disable_progress_bar()
        self.device = pick_device(settings.device)
        self.wide = self.device.type != "cpu"
        """True where few passes over many tokens are better than many over few."""
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        """The precision of passes."""
        if self.device.type == "cuda":  # cuDNN plans anew for every shape, and most steps have one
            torch.backends.cuda.enable_cudnn_sdp(False)
        self.compiled = settings.compile
        if not (folder / "config.json").is_file():
            raise MetisError(
                f"engine.model = {str(folder)!r} holds no model: config.json is missing; name a "
                "folder that transformers has saved"
            )
        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
            network, missing = read_network(folder)
        except LOADING_ERRORS as error:
            raise MetisError(
                f"engine.model = {str(folder)!r} cannot be loaded: {first_line(error)}"
            ) from None
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
            _recompute_activations(self.network)
        self.scale = self._logit_scale()
        text = network.config.get_text_config()
        self.context = int(getattr(text, "max_position_embeddings", 1 << 30))
        self.stops = self._stop_tokens()
        network.generation_config = generation_config(network, self.tokenizer, self.stops)
        self.plain = blocks.supports(network)
        self.windowed = blocks.windowed(network)
        self.separators = separators(self.tokenizer)
        self.processed = 0
        self.scored: dict[int, tuple[Chat, list[int]]] = {}
        """Chats that were just scored, by identity, with their tokens: some will be trained on."""
        self.ends: dict[str, list[int]] = {}
        """Texts that chats ended with, with their tokens."""
        self.recorder = Recorder(self.device)
        self.weights = sum(parameter.numel() for parameter in network.parameters())
        if self.compiled:
            _compile(self.backbone)

    @property
    def adapted(self) -> bool:
        """True where only adapters (LoRA) are trained."""
        return hasattr(self.network, "peft_config")

    @property
    def base(self) -> Any:
        """The transformers model, whatever adapters are around it."""
        return self.network.get_base_model() if self.adapted else self.network

    @property
    def backbone(self) -> Any:
        """The layers below the head."""
        return self.base.get_decoder() if hasattr(self.base, "get_decoder") else self.base.model

    @property
    def layout(self) -> Layout:
        """A strip costs a GPU the launch of kernels."""
        if not self.plain:
            return ONE_STRIP
        return Layout(8, STRIP // self.weights) if self.wide else Layout(1, 64)

    @property
    def trainable(self) -> list[torch.nn.Parameter]:
        return [parameter for parameter in self.network.parameters() if parameter.requires_grad]

    def autocast(self) -> Any:
        """Without autocast's weight cache: a captured CUDA graph would go on with its weights."""
        if self.device.type == "cuda":
            return torch.autocast("cuda", dtype=self.dtype, cache_enabled=False)
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def attention(self, name: str) -> Iterator[None]:
        """Another implementation of attention, for the passes inside."""
        config = self.base.config.get_text_config()
        usual, config._attn_implementation = config._attn_implementation, name
        try:
            yield
        finally:
            config._attn_implementation = usual

    def states(self, past_key_values: Any = None, **arguments: Any) -> torch.Tensor:
        """The last layer's states; a cache takes up the keys and values, and is not compiled."""
        states: torch.Tensor = self._outputs(past_key_values, **arguments).last_hidden_state
        return states

    def every_layer(self, past_key_values: Any = None, **arguments: Any) -> Sequence[torch.Tensor]:
        """The states below and after every layer; those of the last have passed its norm."""
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

    @torch.no_grad()
    def _logit_scale(self) -> float:
        """The factor of the head's logits; nothing else that a model does to them is understood."""
        tokens = torch.arange(8, device=self.device)[None]
        plain = self.base.get_output_embeddings()(self.states(input_ids=tokens)).flatten()
        final = self.base(input_ids=tokens, use_cache=False).logits.flatten()
        scale = float(plain @ final / (plain @ plain))
        if not torch.allclose(scale * plain, final, atol=1e-3 * float(final.abs().max())):
            raise MetisError(
                f"engine.model: {type(self.base).__name__} changes the logits of its head in a way "
                "that is not supported; use another model"
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
        """The tokens of a chat, up to where the assistant begins to speak."""
        tokens: list[int] = self.tokenizer.apply_chat_template(
            list(chat), add_generation_prompt=True, tokenize=True, return_dict=False
        )
        return tokens

    def encode_reply(self, text: str) -> list[int]:
        """The tokens of a reply as the model itself would write them, without an end."""
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens

    def encode_turn(self, chat: Chat, ended: bool, answers: Sequence[Message]) -> list[int]:
        """The tokens between the assistant's answer to `chat` and its next turn.

        An answer that `ended` brought its own end of turn; one that was cut short is given it.
        """
        ends = [self.tokenizer.decode([stop]) for stop in self.stops] if ended else []
        return self.encode_reply(between_turns(self.render, chat, answers, ends))

    def render(self, chat: Chat) -> str:
        """A chat as the template writes it, up to where the assistant begins to speak."""
        text: str = self.tokenizer.apply_chat_template(
            list(chat), add_generation_prompt=True, tokenize=False
        )
        return text

    def decode(self, tokens: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(tokens), skip_special_tokens=True)
        return text


def pick_device(name: str) -> torch.device:
    """The device asked for; auto takes the GPU, then Apple's, then the CPU."""
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


def _compile(backbone: Any) -> None:
    """Layers are alike, so that what is compiled for a kind of pass serves them all."""
    layers = getattr(backbone, "layers", None)
    if layers is None:
        raise MetisError(
            f"engine.compile = true: {type(backbone).__name__} has no list of layers; set "
            "engine.compile=false"
        )
    # Inductor's fused reductions get sizes wrong that are sums, such as those of several blocks.
    fused = "triton.mix_order_reduction"
    options = {fused: False} if fused in torch._inductor.list_options() else {}
    for layer in layers:
        layer.compile(dynamic=True, options=options)


def _without_dropout(network: Any) -> None:
    """Gradient checkpointing needs training mode, where dropout would change the activations."""
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "activation_dropout", "dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def _recompute_activations(network: Any) -> None:
    """Turn activation checkpointing on, which transformers before 5.23 call by another name."""
    enable = getattr(network, "activation_checkpointing_enable", None)
    (enable or network.gradient_checkpointing_enable)({"use_reentrant": False})


def _with_lora(network: Any, rank: int, origin: str) -> Any:
    """Adapters around a network, which will say that they belong to `origin`."""
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
