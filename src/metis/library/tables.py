"""The logs of a folder as tables: lists of flat rows, as `pandas.DataFrame` takes them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from metis.run.folder import log_rows
from metis.run.transcripts import Member, as_damage, members

Row = dict[str, Any]
UNKNOWN = "not recorded"
"""The failure of a rollout of which only the number is known."""


def rollouts(folder: Path, kind: str, log: str) -> list[Row]:
    """One row per rollout: of the transcripts, or else of the groups in a log."""
    return _answered(folder, kind, log_rows(folder, log, optional=True))


def validations(folder: Path) -> list[Row]:
    """One row per validation answer: of the transcripts, or else of the rewards that are logged."""
    tests = log_rows(folder, "evals", optional=True)
    one = {"tokens": [None], "failed": 0}
    return _answered(folder, "eval", [{**row, **one, "rewards": [row["reward"]]} for row in tests])


def _answered(folder: Path, kind: str, groups: Iterable[Row]) -> list[Row]:
    texts = _texts(folder)
    told: dict[tuple[int, str], list[Row]] = {}
    for member in members(folder, kind):
        with as_damage(folder, member.place):
            key = member.head["step"], member.head["prompt"]
            told.setdefault(key, []).extend(_told(member, texts))
    rows = [row for of_group in told.values() for row in of_group]
    for group in groups:
        known = told.get((group.get("step", 0), group["prompt"]), [])
        rows += _others(group, list(_counted(group, texts)), known)
    return sorted(rows, key=_step)


def _others(group: Row, counted: list[Row], told: list[Row]) -> list[Row]:
    """The rollouts of a group that its transcript does not keep."""
    if not told:
        return counted
    if len(told) >= len(counted):
        return []
    valid, known = len(group["rewards"]), sum(row["reward"] is not None for row in told)
    left = counted[known:valid] + counted[valid + len(told) - known :]
    return [{**row, "rollout": None} for row in left]


def _step(row: Row) -> int:
    return int(row["step"])


def _told(member: Member, texts: Mapping[str, Row]) -> Iterator[Row]:
    """The rollouts of a transcript."""
    head = member.head
    for row in member.rows:
        opening = row["asked"] if "asked" in row else head["messages"]
        asked = [turn["content"] for turn in opening if turn["role"] == "user"]
        said = [turn["content"] for turn in row["messages"] if turn["role"] == "assistant"]
        yield {
            "step": head["step"],
            "prompt": head["prompt"],
            "text": texts.get(head["prompt"], {}).get("text", "".join(asked[-1:])),
            "category": head["category"],
            "rollout": row["rollout"],
            "reward": row["reward"],
            **{f"reward/{name}": value for name, value in (row.get("parts") or {}).items()},
            "tokens": row["tokens"],
            "truncated": row["truncated"],
            "failure": row["failure"],
            "trained": row.get("trained"),
            "turns": len(said),
            "answer": "".join(said[-1:]),
        }


def _counted(group: Row, texts: Mapping[str, Row]) -> Iterator[Row]:
    """The rollouts of a group without a transcript, the failed ones last."""
    known, answers = len(group["rewards"]), group.get("answers", [])
    reported = group.get("reported", [{}] * known)
    for place in range(known + group["failed"]):
        valid = place < known
        yield {
            "step": group.get("step", 0),
            "prompt": group["prompt"],
            "text": texts.get(group["prompt"], group).get("text"),
            "category": group.get("category", ""),
            "rollout": place,
            "reward": group["rewards"][place] if valid else None,
            **({f"reward/{n}": v for n, v in reported[place].items()} if valid else {}),
            "tokens": group["tokens"][place] if valid else None,
            "truncated": None,
            "failure": None if valid else UNKNOWN,
            "trained": None,
            "turns": None,
            "answer": answers[place] if place < len(answers) else None,
        }


def judgments(folder: Path) -> list[Row]:
    """One row per candidate and step: its prediction, the reason it was chosen or not, the text."""
    texts = _texts(folder)
    rows = [
        {"step": row["step"], **_described(texts, row["prompt"]), **_flat(row)}
        for row in log_rows(folder, "judgments", optional=True)
    ]
    columns = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in columns} for row in rows]


def prompts(folder: Path) -> list[Row]:
    """One row per prompt: its text, how often it was a candidate and rolled out, its rewards."""
    texts = _texts(folder)
    table = {name: {**_described(texts, name), **_counts()} for name in texts}
    for row in log_rows(folder, "judgments", optional=True):
        known = table.setdefault(row["prompt"], {"prompt": row["prompt"], **_counts()})
        known["seen"] += 1
        known["chosen"] += bool(row.get("chosen"))
    for group in log_rows(folder, "rollouts", optional=True):
        known = table.setdefault(group["prompt"], {"prompt": group["prompt"], **_counts()})
        known.setdefault("category", group.get("category", ""))
        known.setdefault("text", group.get("text"))
        known["rollouts"] += len(group["rewards"]) + group["failed"]
        known["failed"] += group["failed"]
        known["last_step"], known["last_mean"] = group["step"], _mean(group["rewards"])
    return list(table.values())


def _counts() -> Row:
    return {
        **dict.fromkeys(("seen", "chosen", "rollouts", "failed"), 0),
        **dict.fromkeys(("last_step", "last_mean")),
    }


def _texts(folder: Path) -> dict[str, Row]:
    """The prompts that were candidates, by their ids, where they are kept."""
    return {row["prompt"]: row for row in log_rows(folder, "prompts", optional=True)}


def _described(texts: Mapping[str, Row], prompt: str) -> Row:
    known = texts.get(prompt, {})
    about = {name: known.get(name) for name in ("text", "category", "difficulty")}
    return {"prompt": prompt, **(about if known else {})}


def outcomes(folder: Path, kind: Callable[[list[float]], str]) -> list[Row]:
    """One row per prompt of a survey, with its kind by its rewards."""
    return [
        {
            "prompt": row["prompt"],
            "category": row["category"],
            "kind": kind(row["rewards"]),
            "mean": _mean(row["rewards"]),
            "rollouts": len(row["rewards"]) + row["failed"],
            "failed": row["failed"],
            "truncated": row["cut_off"],
        }
        for row in log_rows(folder, "outcomes")
    ]


def answers(folder: Path) -> list[Row]:
    """One row per answer of an evaluation, with all of its scores."""
    return [
        {
            "benchmark": row["benchmark"],
            "problem": row["problem"],
            "reference": row["reference"],
            "sample": place,
            **{f"score/{name}": value for name, value in answer["scores"].items()},
            "tokens": answer["tokens"],
            "truncated": answer["finish"] == "length",
            "failure": answer.get("error") if answer["finish"] == "failed" else None,
            "turns": len(answer["turns"]),
            "answer": "".join(answer["turns"][-1:]),
        }
        for row in log_rows(folder, "answers")
        for place, answer in enumerate(row["answers"])
    ]


def _mean(rewards: list[float]) -> float | None:
    return sum(rewards) / len(rewards) if rewards else None


def _flat(row: Row, prefix: str = "") -> Row:
    """A row without `schema`, whose mappings are columns named by their path."""
    flat: Row = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            flat |= _flat(dict(value), f"{prefix}{name}/")
        elif prefix or name != "schema":
            flat[prefix + name] = value
    return flat
