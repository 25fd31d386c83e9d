"""Reads answers as transcript members, from whichever file has them.

Transcripts have them as they are. Of folders without transcripts, so have `rollouts.jsonl` (of
earlier versions, some answers) and `answers.jsonl` (all).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from metis.run.folder import log_file, log_rows, read_log
from metis.run.transcripts import examples
from metis.tasks.benchmarks.scoring import FAITHFUL

Row = Mapping[str, Any]


def answers(group: Row) -> list[str]:
    """The answers that a row of `rollouts.jsonl` has: a list, or one; none since transcripts."""
    found = group.get("answers", [group.get("answer", "")])
    return [str(answer) for answer in found] if isinstance(found, list) else []


def of_group(row: Row) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Head and rows of a group of `rollouts.jsonl`, with those answers that it keeps."""
    rewards, tokens = row.get("rewards", []), row.get("tokens", [])
    head = {
        "step": row["step"],
        "prompt": row["prompt"],
        "category": row.get("category", ""),
        "messages": [{"role": "user", "content": str(row["text"])}] if row.get("text") else [],
        "n": len(rewards) + row.get("failed", 0),
    }
    rows = [
        {
            "rollout": place,
            "messages": [{"role": "assistant", "content": text}],
            "reward": _at(rewards, place),
            "parts": _at(row.get("reported", []), place) or {},
            "tokens": _at(tokens, place),
        }
        for place, text in enumerate(answers(row))
        if text
    ]
    return head, rows


def of_problem(row: Row) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Head and rows of a problem of `answers.jsonl`."""
    given = row["answers"]
    head = {
        "step": 0,
        "prompt": row["problem"],
        "category": row["benchmark"],
        "messages": [],
        "n": len(given),
        "reference": row.get("reference", ""),
    }
    rows = [
        {
            "rollout": place,
            "messages": [{"role": "assistant", "content": str(turn)} for turn in answer["turns"]],
            "reward": None if answer["finish"] == "failed" else answer["scores"][FAITHFUL],
            "parts": {key: x for key, x in answer["scores"].items() if key != FAITHFUL},
            "tokens": answer["tokens"],
            "truncated": answer["finish"] == "length",
            "failure": answer.get("error"),
        }
        for place, answer in enumerate(given)
    ]
    return head, rows


def group_of_problem(row: Row) -> dict[str, Any]:
    """A problem of `answers.jsonl` as a group of `rollouts.jsonl`."""
    return group_of_answers(*of_problem(row))


def group_of_answers(head: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """Head and rows of a group as a row of `rollouts.jsonl`."""
    rewards = [each.get("reward") for each in rows]
    return {
        **{name: head.get(name) for name in ("step", "prompt", "category")},
        "rewards": [reward for reward in rewards if reward is not None],
        "tokens": [tokens for each in rows if (tokens := each.get("tokens")) is not None],
        "failed": rewards.count(None),
    }


def groups_asked_once(folder: Path) -> list[dict[str, Any]] | None:
    """The groups of a survey or an evaluation; None of another folder."""
    if log_file(folder, "outcomes").exists():
        return [{**row, "step": 0} for row in read_log(folder, "outcomes")]
    if log_file(folder, "answers").exists():
        return [group_of_problem(row) for row in log_rows(folder, "answers")]
    return None


def asked(head: Row, row: Row) -> list[dict[str, Any]]:
    """The messages before an answer; of those before the question it is said that they are
    examples."""
    given = messages({"messages": row["asked"]} if "asked" in row else head)
    before = examples(given)
    return [
        {**message, "example": True} if nth < before and message["role"] != "system" else message
        for nth, message in enumerate(given)
    ]


def messages(row: Row) -> list[dict[str, str]]:
    """Messages with a role and a text, whatever a file has in their place."""
    return list(_messages(row.get("messages")))


def _messages(found: Any) -> Iterator[dict[str, str]]:
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict):
            content = each.get("content")
            text = content if isinstance(content, str) else "" if content is None else str(content)
            yield {"role": str(each.get("role", "")), "content": text}


def text(row: Row) -> str:
    """All that was said, a turn after the other."""
    return "\n".join(message["content"] for message in messages(row))


def question(head: Row) -> str:
    """The last thing that a user said before the first answer."""
    asked = [each["content"] for each in messages(head) if each["role"] == "user"]
    return asked[-1] if asked else ""


def _at(values: Any, place: int) -> Any:
    return values[place] if isinstance(values, Sequence) and place < len(values) else None
