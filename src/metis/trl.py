"""A selector in TRL's trainers: a dataset that proposes, rewards that are observed, saved state.

TRL's `GRPOTrainer` and `RLOOTrainer` take all of it as they are.
"""

import base64
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from datasets import IterableDataset
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from metis.core import Embed, Prompt, Request
from metis.core.state import decoded, encoded
from metis.engines.hidden_states import layers_at, padded
from metis.errors import MetisError, require
from metis.selector import Pick, Selector
from metis.selector.rows import TEXTS

Reward = Callable[..., Sequence[float | None]]

COLUMN = "metis_pick"
"""The column of the stream that says which pick a row is."""
ROWS = 16
"""Prompts of a forward pass."""

_streamed: list[Selector] = []
"""Selectors by number: datasets hash what a stream is made from, which a number keeps short."""


# The dataset


def stream(selector: Selector) -> IterableDataset:
    """The prompts that the selector proposes, with all columns of their rows.

    Begun again, it starts with the picks that have no rewards yet, so it may be looked into.
    """
    if selector.filters:
        raise MetisError(
            f"curriculum = {selector.name!r} refills its batch after the rollouts, but TRL trains "
            "on the prompts that it drew: use one that selects before, such as mopps"
        )
    if selector.ragged:
        raise MetisError(
            f"curriculum = {selector.name!r} gives each prompt its own number of rollouts, but "
            "TRL's `num_generations` is one for all: use one that selects, such as mopps, or "
            "metis.Selector in your own loop"
        )
    _streamed.append(selector)
    number = {"number": len(_streamed) - 1}
    return IterableDataset.from_generator(_proposals, gen_kwargs=number)


def _proposals(number: int) -> Iterator[dict[str, Any]]:
    selector = _streamed[number]
    picks = selector.outstanding
    while True:
        for pick in picks:
            _require_as_any_other(selector, pick)
            yield {**_columns(pick.prompt), COLUMN: {"id": pick.id, "key": pick.key}}
        picks = selector.propose()


def _require_as_any_other(selector: Selector, pick: Pick) -> None:
    if pick.measure or pick.n != selector.group:
        what = "only to measure" if pick.measure else f"instead of {selector.group}"
        raise MetisError(
            f"curriculum = {selector.name!r} asks for {pick.n} rollouts of a prompt {what}, which "
            "TRL cannot do: use another one, such as mopps"
        )


def _columns(row: Any) -> dict[str, Any]:
    """A row of a dataset, with its text or chat in `prompt`, as TRL wants it."""
    if isinstance(row, Prompt):
        return {"prompt": row.text}
    if not isinstance(row, Mapping):
        return {"prompt": row}
    text = next(row[name] for name in TEXTS if name in row)
    return {**row, "prompt": text}


# Rewards


def watch(selector: Selector, rewards: Any, weights: Sequence[float] | None = None) -> Any:
    """The reward function, or functions, whose rewards the selector also observes.

    weights  of several functions, as in `reward_weights`; the selector observes their mean
    """
    several = isinstance(rewards, list | tuple)
    functions: list[Reward] = list(rewards) if several else [rewards]
    for function in functions:
        if not callable(function) or isinstance(function, torch.nn.Module):
            raise MetisError(f"reward = {function!r} is no function: wrap it in one")
        if inspect.iscoroutinefunction(function):
            raise MetisError(f"reward = {function!r} is asynchronous: use a plain function")
    shares = [1.0] * len(functions) if weights is None else [float(weight) for weight in weights]
    if len(shares) != len(functions) or min(shares, default=0.0) <= 0:
        raise MetisError(f"weights = {shares}: give a positive one for each reward function")
    watcher = _Watcher(selector, shares)
    watched = [watcher.watched(place, function) for place, function in enumerate(functions)]
    return watched if several else watched[0]


class _Watcher:
    """Collects what each reward function says of a batch, and has the selector observe it."""

    def __init__(self, selector: Selector, weights: list[float]) -> None:
        self.selector, self.weights = selector, weights
        self.said: dict[int, list[float | None]] = {}

    def watched(self, place: int, function: Reward) -> Reward:
        @functools.wraps(function)
        def reward(**given: Any) -> Sequence[float | None]:
            picks = given.pop(COLUMN, None)  # None in evaluation, on rows that nobody proposed
            values = function(**given)
            if picks is not None:
                self.said[place] = [_number(value) for value in values]
                if len(self.said) == len(self.weights):
                    self._observe(picks)
                    for name, value in self.selector.metrics().items():
                        given["log_metric"](name, value)
            return values

        reward.__name__ = getattr(function, "__name__", type(function).__name__)
        return reward

    def _observe(self, picks: Sequence[Mapping[str, Any]]) -> None:
        of_functions = [self.said[place] for place in range(len(self.weights))]
        means = [self._mean(values) for values in zip(*of_functions, strict=True)]
        self.said = {}
        ours = [(pick["id"], pick["key"], mean) for pick, mean in zip(picks, means, strict=True)]
        groups: dict[tuple[int, str], list[float | None]] = {}
        for pick, key, mean in gather_object(ours):
            groups.setdefault((pick, key), []).append(mean)
        for (pick, key), group in groups.items():
            if len(group) != self.selector.group:
                raise MetisError(
                    f"pick {pick} ({key}) has {len(group)} rollouts instead of "
                    f"{self.selector.group}: the processes do not agree on the prompts. Give each "
                    "the same rows, settings and seed"
                )
            self.selector.observe(pick, group)

    def _mean(self, values: Sequence[float | None]) -> float | None:
        """The weighted mean over the functions that gave a reward; None where none did."""
        given = [(w, v) for w, v in zip(self.weights, values, strict=True) if v is not None]
        return sum(w * v for w, v in given) / sum(w for w, _ in given) if given else None


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


# The trainer's model


class Policy:
    """Answers `Embed` with hidden states of the model that is trained: `ask=metis.trl.Policy()`.

    `State` gives it the trainer's model. Each process reads a part of the prompts, and all have
    the same answer.
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.tokenizer: Any = None
        self.selector: Selector | None = None
        self.template: dict[str, Any] = {}

    def __call__(self, request: Request[Any]) -> Any:
        if not isinstance(request, Embed):
            raise MetisError(f"a Policy answers Embed, not {type(request).__name__}: use ask=")
        if self.selector is None:
            raise MetisError("a Policy has no model: give the trainer callbacks=[State(selector)]")
        here = PartialState()
        mine = range(here.process_index, len(request.prompts), here.num_processes)
        tokens = {place: self._tokens(request.prompts[place]) for place in mine}
        order = sorted(mine, key=lambda place: len(tokens[place]))
        found: list[tuple[int, Any]] = []
        for start in range(0, len(order), ROWS):
            part = order[start : start + ROWS]
            states = self._states([tokens[place] for place in part], request.depths)
            found += zip(part, states, strict=True)
        return [state for _, state in sorted(gather_object(found), key=lambda each: each[0])]

    def _tokens(self, given: Any) -> list[int]:
        """The prompt as TRL tokenizes it."""
        assert self.selector is not None
        if isinstance(given, Prompt):
            given = _columns(self.selector.row(given))["prompt"]
        if isinstance(given, str):
            return list(self.tokenizer(text=given)["input_ids"])
        encoded = self.tokenizer.apply_chat_template(
            given, add_generation_prompt=True, tokenize=True, return_dict=True, **self.template
        )
        return list(encoded["input_ids"])

    def _states(self, sequences: list[list[int]], depths: Sequence[float]) -> list[Any]:
        tokens, sizes = padded(sequences)
        mask = torch.arange(tokens.shape[1]) < sizes[:, None]
        device = next(self.model.parameters()).device
        training = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                states = self.model(
                    input_ids=tokens.to(device),
                    attention_mask=mask.long().to(device),
                    output_hidden_states=True,
                    use_cache=False,
                    logits_to_keep=1,
                ).hidden_states
        finally:
            self.model.train(training)
        rows, last = torch.arange(len(sequences), device=device), (sizes - 1).to(device)
        layers = layers_at(depths, len(states) - 1)
        read = torch.cat([states[layer][rows, last] for layer in layers], dim=1)
        return list(read.float().cpu().numpy())


# The state


class State(TrainerCallback, ExportableState):
    """Saves the selector with each checkpoint, and goes on from there when training resumes."""

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.began = False

    def on_init_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if not hasattr(args, "generation_batch_size"):
            raise MetisError(
                f"{type(args).__name__} is of a trainer that is not supported: of "
                "`AsyncGRPOTrainer` another process reads the dataset and calls the reward "
                "functions. Use `GRPOTrainer` or `RLOOTrainer`"
            )
        args.ignore_data_skip = True  # the stream goes on by itself
        name = "restore_callback_states_from_checkpoint"  # it would make another State, of nothing
        require(not getattr(args, name), name, True, "leave it at False: State restores itself")

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._check(args)
        if isinstance(self.selector.ask, Policy):
            processing, policy = given["processing_class"], self.selector.ask
            policy.model, policy.selector = given["model"], self.selector
            policy.tokenizer = getattr(processing, "tokenizer", processing)
            policy.template = dict(getattr(args, "chat_template_kwargs", None) or {})
        if state.global_step > 0:
            self._restore(state.stateful_callbacks.get(type(self).__name__, {}))
        self.began = True

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if not self.selector.metrics()["selector/ended"]:
            raise MetisError(
                "a step has ended and the selector has observed no rewards: give the trainer "
                "train_dataset=stream(selector) and reward_funcs=watch(selector, reward)"
            )

    def state(self) -> dict[str, Any]:
        """What is saved: nothing before training has begun."""
        if not self.began:
            return {"args": {}, "attributes": {}}
        saved = base64.b64encode(encoded(self.selector.state_dict())).decode()
        return {"args": {}, "attributes": {"selector": saved}}

    def _restore(self, saved: Mapping[str, Any]) -> None:
        text = saved.get("attributes", {}).get("selector")
        if text is None:
            raise MetisError("the checkpoint has no selector: it was saved without State(selector)")
        self.selector.load_state_dict(decoded(base64.b64decode(text), "the selector's state"))

    def _check(self, args: Any) -> None:
        """Refuse arguments under which the selector would propose or observe something else."""
        batch, group = self.selector.batch, self.selector.group
        sizes = f"the selector has batch = {batch} and group = {group}"
        for name, wanted, reason in (
            ("shuffle_dataset", False, "the selector orders the prompts"),
            ("remove_unused_columns", False, "a column says which pick a row is"),
            ("ignore_data_skip", True, "the stream goes on by itself"),
            ("num_generations", group, sizes),
            ("generation_batch_size", batch * group, sizes),
        ):
            given = getattr(args, name)
            require(given == wanted, name, given, f"use {wanted}: {reason}")
