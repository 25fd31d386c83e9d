"""The training prompts: reshuffled every epoch, sampled without replacement, resumable in O(1).

Each epoch's order is a function of (seed, epoch), so a checkpoint holds only the epoch, the cursor
and the few prompts that were skipped, however many prompts there are.
"""

import hashlib
import zlib
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metis.core.values import Prompt
from metis.errors import MetisError

Rewards = Literal["binary", "continuous"]


@dataclass
class Stream:
    """An endless sampler over `members`: each once per epoch, in a new order every epoch."""

    members: NDArray[np.int64]
    seed: tuple[int, ...]
    epoch: int = 0
    cursor: int = 0
    deferred: list[int] = field(default_factory=list)
    """Members skipped in this epoch because the draw already had them; they come next."""

    def __post_init__(self) -> None:
        self._member_set = frozenset(self.members.tolist())
        self._shuffle()

    def _shuffle(self) -> None:
        generator = np.random.default_rng([*self.seed, self.epoch])
        self._order = generator.permutation(self.members)

    def draw(self, count: int, banned: set[int]) -> list[int]:
        """Up to `count` distinct members, none of them banned.

        A new epoch starts only once every free member of this one has been drawn.
        """
        count = min(count, len(self._member_set) - len(self._member_set & banned))
        drawn: list[int] = []
        taken = set(banned)
        passed, self.deferred = deque(self.deferred), []
        while len(drawn) < count:
            if passed:
                member = passed.popleft()
            elif self.cursor < len(self._order):
                member = int(self._order[self.cursor])
                self.cursor += 1
            else:
                self.epoch, self.cursor = self.epoch + 1, 0
                self._shuffle()
                continue
            if member in taken:
                self.deferred.append(member)
            else:
                taken.add(member)
                drawn.append(member)
        self.deferred = list(dict.fromkeys([*self.deferred, *passed]))
        return drawn

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "cursor": self.cursor, "deferred": list(self.deferred)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.cursor = state["epoch"], state["cursor"]
        self.deferred = list(state["deferred"])
        self._shuffle()


class Subset(NamedTuple):
    """A curriculum's own subset of the prompts, by position; a name always means the same prompts.

    The pool saves its epoch and cursor under that name; the curriculum saves its members.
    """

    name: str
    members: NDArray[np.int64]


class Pool:
    """The training prompts that a curriculum selects from; `rewards`: binary or continuous.

    A sequence of its own kind is kept as it is, so that it may build prompts when they are read.
    """

    def __init__(
        self, prompts: Iterable[Prompt], rewards: Rewards = "binary", seed: int = 0
    ) -> None:
        lazy = isinstance(prompts, Sequence) and not isinstance(prompts, list)
        self.prompts: Sequence[Prompt] = prompts if lazy else list(prompts)  # type: ignore[assignment]
        self.rewards = rewards
        self.seed = seed
        self.positions: dict[str, int] = {}
        """The position of each prompt, by id."""
        for place, prompt in enumerate(self.prompts):
            if self.positions.setdefault(prompt.id, place) != place:
                raise MetisError(
                    f"prompt id {prompt.id!r} occurs twice in the training set: ids must be unique "
                    "and stable, such as dataset:row"
                )
        self._streams: dict[str | None, Stream] = {}
        self._subsets: dict[str, Stream] = {}
        self._unclaimed: dict[str, Any] = {}
        """Saved states of subsets that were not sampled since the checkpoint was loaded."""

    def __len__(self) -> int:
        return len(self.prompts)

    def __contains__(self, prompt_id: str) -> bool:
        return prompt_id in self.positions

    def __getitem__(self, prompt_id: str) -> Prompt:
        return self.prompts[self.positions[prompt_id]]

    @property
    def epoch(self) -> int:
        """Epochs completed over all prompts, by `sample` without category or subset."""
        return self._stream(None).epoch

    @cached_property
    def categories(self) -> dict[str, NDArray[np.int64]]:
        """Positions of the prompts of each category, sorted by category name."""
        members: dict[str, list[int]] = {}
        for i, prompt in enumerate(self.prompts):
            members.setdefault(prompt.category, []).append(i)
        return {name: np.array(members[name], dtype=np.int64) for name in sorted(members)}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the prompts, in order."""
        digest = hashlib.sha256()
        for prompt in self.prompts:
            fields = f"{prompt.id}\0{prompt.category}\0{prompt.text}\0"
            digest.update(fields.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()[:16]

    def sample(
        self,
        count: int,
        *,
        category: str | None = None,
        among: Subset | None = None,
        exclude: Collection[Prompt] = (),
    ) -> list[Prompt]:
        """The next `count` distinct prompts, none of `exclude`; fewer if not enough are left.

        They come from all prompts, from one category, or from among a curriculum's own subset;
        each has its own epochs. A plan that samples several times in a step passes the prompts it
        already has as `exclude`.
        """
        if category is not None and among is not None:
            raise ValueError("sample from a category or from among a subset, not both")
        banned = {self.positions[prompt.id] for prompt in exclude if prompt.id in self.positions}
        stream = self._stream(category) if among is None else self._subset(among)
        return [self.prompts[i] for i in stream.draw(count, banned)]

    def _stream(self, category: str | None) -> Stream:
        if category not in self._streams:
            if category is None:
                members, name = np.arange(len(self.prompts), dtype=np.int64), "pool"
            else:
                if category not in self.categories:
                    raise MetisError(
                        f"category {category!r} is not in the training set, which has "
                        f"{', '.join(map(repr, self.categories))}"
                    )
                members, name = self.categories[category], f"category {category}"
            self._streams[category] = Stream(members, self._seed(name))
        return self._streams[category]

    def _subset(self, subset: Subset) -> Stream:
        name, members = subset
        if name not in self._subsets:
            inside = np.all((members >= 0) & (members < len(self.prompts)))
            if not inside or len(np.unique(members)) < len(members):
                raise ValueError(f"subset {name!r} must hold distinct positions of prompts")
            stream = Stream(members.copy(), self._seed(f"subset {name}"))
            if name in self._unclaimed:
                stream.load_state_dict(self._unclaimed.pop(name))
            self._subsets[name] = stream
        if not np.array_equal(self._subsets[name].members, members):
            raise ValueError(f"subset {name!r} stood for other prompts before: give it a new name")
        return self._subsets[name]

    def _seed(self, name: str) -> tuple[int, int]:
        return self.seed, zlib.crc32(name.encode("utf-8", "surrogatepass"))

    def state_dict(self) -> dict[str, Any]:
        return {"fingerprint": self.fingerprint, "seed": self.seed, **self.places()}

    def places(self) -> dict[str, Any]:
        """The part of the state that sampling changes."""
        walked = {name: stream.state_dict() for name, stream in self._subsets.items()}
        return {
            "streams": [[name, stream.state_dict()] for name, stream in self._streams.items()],
            "subsets": {**self._unclaimed, **walked},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["fingerprint"] != self.fingerprint:
            raise MetisError(
                f"training set = {len(self)} prompts with fingerprint {self.fingerprint}, but the "
                f"checkpoint was made with {state['fingerprint']}: use the same data, in the same "
                "order, or start a new run folder"
            )
        if state["seed"] != self.seed:
            raise MetisError(
                f"seed = {self.seed}: the checkpoint was made with seed {state['seed']}; use that"
            )
        self.go_to(state)

    def go_to(self, state: dict[str, Any]) -> None:
        """Continue sampling from these positions."""
        self._streams.clear()
        self._subsets.clear()
        for name, stream in state["streams"]:
            self._stream(name).load_state_dict(stream)
        self._unclaimed = dict(state.get("subsets", {}))
