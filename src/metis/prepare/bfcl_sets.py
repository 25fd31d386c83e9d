"""The dialogues of BFCL's multi-turn categories, and a composite category that can be solved.

The official composite was never maintained: of its 200 ground truths most contain calls that fail
on today's APIs, so that doing the right thing is marked wrong. The rebuilt one combines the
maintained entries of the same number: the missing function of `miss_func`, the missing value of
`miss_param`, and the scenario and ground truth of `long_context`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from metis.tasks.bfcl import package
from metis.tasks.bfcl.dialogue import Dialogue
from metis.tasks.bfcl.document import CATEGORIES

REBUILT = "multi_turn_composite_rebuilt"


@dataclass(frozen=True)
class FailedCall:
    """A call of a ground truth that does not work."""

    dialogue: str
    turn: int
    call: str
    error: str


def official(category: str) -> list[Dialogue]:
    """The dialogues of a category as the package has them."""
    unused = category == "composite"
    folders = ("unused_datasets/question/", "unused_datasets/") if unused else ("", "")
    name = f"BFCL_v4_multi_turn_{category}.json"
    entries = package.lines(f"{folders[0]}{name}")
    truths = package.lines(f"{folders[1]}possible_answer/{name}")
    return [
        Dialogue.of(entry, truth["ground_truth"], category)
        for entry, truth in zip(entries, truths, strict=True)
    ]


def every(composite: str) -> dict[str, list[Dialogue]]:
    """All categories; `composite` is official or rebuilt."""
    dialogues = {name: official(name) for name in CATEGORIES if name != "composite"}
    parts = zip(*dialogues.values(), strict=True)
    dialogues["composite"] = (
        official("composite")
        if composite == "official"
        else [rebuild(number, *each) for number, each in enumerate(parts)]
    )
    return dialogues


def rebuild(
    number: int, base: Dialogue, function: Dialogue, parameter: Dialogue, long: Dialogue
) -> Dialogue:
    """The composite of four dialogues about the same: all that is missing in any of them."""
    [(handed, names)] = function.handed.items()
    vague = _first_vague(base, parameter)
    questions: list[str] = []
    truth: list[tuple[str, ...]] = []
    missed: dict[int, tuple[str, ...]] = {}
    for turn, question in enumerate(base.questions):
        if turn == vague:
            questions += [parameter.questions[turn], parameter.questions[turn + 1]]
            truth.append(())
        else:
            questions.append(question)
        if turn == handed - 1:
            truth.append(())
            missed[len(questions)] = names
            questions.append("")
        truth.append(long.truth[turn])
    return replace(
        long,
        id=f"{REBUILT}_{number}",
        category="composite",
        questions=tuple(questions),
        truth=tuple(truth),
        handed=missed,
    )


def _first_vague(base: Dialogue, parameter: Dialogue) -> int:
    """The turn in which the user leaves a value out."""
    turns = zip(base.truth, parameter.truth, strict=False)
    return next(turn for turn, (full, left) in enumerate(turns) if full and not left)


def failures(dialogues: Sequence[Dialogue]) -> Iterator[FailedCall]:
    """The calls of ground truths that do not work when they are made."""
    for dialogue in dialogues:
        world = dialogue.world()
        for turn, solution in enumerate(dialogue.solution):
            for text, call in zip(dialogue.truth[turn], solution, strict=True):
                result = world.call(call)
                if _failed(result):
                    yield FailedCall(dialogue.id, turn, text, result)


def _failed(result: str) -> bool:
    return result.startswith(("Error", '{"error"'))


def described(failure: FailedCall) -> dict[str, Any]:
    """A failure as JSON."""
    return {
        "id": failure.dialogue,
        "turn": failure.turn,
        "call": failure.call,
        "error": failure.error[:500],
    }
