"""The transcripts of a folder as logs of inspect_ai, which `inspect view` opens.

A log is a zip file: a JSON file per sample (a rollout), their summaries, and a header with what
all have in common. Its version is 2.
"""

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZipFile

import metis
from metis import files
from metis.export.messages import Row, asked, encoded, require_transcripts
from metis.files import require_new_folder, writing
from metis.run.manifest import read_config, settings_of
from metis.run.transcripts import FOLDER, Member, file_name, members

LARGE = 5_000
"""Rollouts after which a log ends with its step."""

_ID = 200
"""Characters of a prompt's id that are part of a sample's."""
_SHOWN = 120
"""Characters of an answer in the list of samples."""
_PROMPT = 1_000
"""Characters of a prompt in the list of samples."""
_NUMBERS = (int, float)


def write_logs(folder: Path, target: Path) -> dict[str, int]:
    """Write the logs to a new folder, whole or not at all; returns their names and sizes."""
    require_transcripts(folder)
    require_new_folder(target)
    config = read_config(folder)
    written = {}
    with writing(target), files.atomic_folder(target.resolve()) as draft:
        for _, groups in groupby(members(folder), key=_Division()):
            unnamed = draft / "unnamed"
            log = InspectLog(folder, config)
            with unnamed.open("wb") as file:
                log.write(file, groups)
            unnamed.rename(draft / f"{log.name}.eval")
            written[log.name] = log.count
    return written


class _Division:
    """Numbers the logs: validations one by one, the rest by kind and by ranges of steps."""

    def __init__(self) -> None:
        self.number = self.rollouts = 0
        self.last: tuple[str, int] | None = None

    def __call__(self, member: Member) -> int:
        here = member.place.kind, int(member.head["step"])
        if self.last and here != self.last:
            of_other_kind = here[0] != self.last[0]
            if of_other_kind or here[0] == "eval" or self.rollouts >= LARGE:
                self.number, self.rollouts = self.number + 1, 0
        self.last = here
        self.rollouts += len(member.rows)
        return self.number


class InspectLog:
    """One log, of which nothing but its totals is held in memory."""

    def __init__(self, folder: Path, config: Row) -> None:
        self.home, self.config = folder.resolve(), config
        self.model = _model(config)
        self.name, self.count, self.failed, self.epochs = "", 0, 0, 1
        self.prompts = self.tokens = 0
        self.sums: dict[str, float] = {}
        self.scored = Counter[str]()

    def write(self, file: IO[bytes], groups: Iterator[Member]) -> None:
        """Write the samples as they are read, then their summaries, then the header."""
        archive = ZipFile(file, "w", ZIP_DEFLATED, compresslevel=1)
        with archive, tempfile.TemporaryFile() as summaries:
            for member in groups:
                self._describe(member)
                for row in member.rows:
                    self._add(archive, summaries, member, row)
            summaries.seek(0)
            with archive.open("summaries.json", "w", force_zip64=True) as listed:
                listed.write(b"[")
                listed.writelines(summaries)
                listed.write(b"]")
            archive.writestr("header.json", encoded(self._header()))

    def _describe(self, member: Member) -> None:
        """Name the log by the steps it has so far."""
        kind, step = member.place.kind, member.head["step"]
        if not self.prompts:
            self.kind, self.first = kind, step
            source = self.home / FOLDER / file_name(kind, step)
            self.time = datetime.fromtimestamp(int(source.stat().st_mtime), UTC).isoformat()
        last = "" if step == self.first else f"-{step:05d}"
        self.name = f"{kind}-{self.first:05d}{last}"
        self.prompts += 1

    def _add(self, archive: ZipFile, summaries: IO[bytes], member: Member, row: Row) -> None:
        name, epoch = sample_id(member.head), row["rollout"] + 1
        while _file(name, epoch) in archive.NameToInfo:
            epoch += 1
        sample = {"id": name, "epoch": epoch, **_sample(member, row, self.model)}
        archive.writestr(_file(name, epoch), encoded(sample))
        summaries.write(b",\n" * bool(self.count) + encoded(_summary(sample)))
        self.count += 1
        self.tokens += row["tokens"]
        self.failed += sample["error"] is not None
        self.epochs = max(self.epochs, epoch)
        for score, said in (sample["scores"] or {}).items():
            if isinstance(said["value"], _NUMBERS):
                self.scored[score] += 1
                self.sums[score] = self.sums.get(score, 0.0) + said["value"]

    def _header(self) -> Row:
        task = f"{self.home.name} {self.name}"
        identity = _digest(f"{self.home} {self.name}")
        spec = {
            "eval_id": identity,
            "run_id": _digest(str(self.home)),
            "task_id": identity,
            "created": self.time,
            "task": task,
            "task_args": settings_of(self.config),
            "dataset": {"name": self.home.name, "samples": self.prompts},
            "model": self.model,
            "config": {"epochs": self.epochs},
            "packages": {"metis": metis.__version__},
        }
        return {
            "version": 2,
            "status": "success",
            "eval": spec,
            "plan": {"name": "plan", "steps": [], "config": {}},
            "results": {
                "total_samples": self.count,
                "completed_samples": self.count - self.failed,
                "scores": [self._mean(score) for score in self.sums],
            },
            "stats": {
                "started_at": self.time,
                "completed_at": self.time,
                "model_usage": _usage(self.model, self.tokens),
            },
        }

    def _mean(self, score: str) -> Row:
        known = self.scored[score]
        return {
            "name": score,
            "scorer": score,
            "scored_samples": known,
            "unscored_samples": self.count - known,
            "metrics": {"mean": {"name": "mean", "value": self.sums[score] / known}},
        }


def sample_id(head: Row) -> str:
    """Step and prompt; of a prompt's id that no file can have in its name, a digest."""
    prompt = str(head["prompt"])
    climbs = ".." in prompt.replace("\\", "/").split("/")
    if climbs or not prompt.isprintable() or len(prompt) > _ID:
        prompt = _digest(prompt)
    set_of = [head["benchmark"]] if head.get("benchmark") else []
    return "/".join([str(head["step"]), *set_of, prompt])


def _file(name: str, epoch: int) -> str:
    return f"samples/{name}_epoch_{epoch}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:22]


def _model(config: Row) -> str:
    engine = config.get("engine") or {}
    return str(engine.get("model") or engine.get("name") or config.get("model") or "unknown")


def _chat(turns: list[Row]) -> list[Row]:
    """Messages as the viewer shows all of them: a tool's belong to calls in the answer before.

    What was called, and how, is in that answer's text.
    """
    chat: list[Row] = []
    calls: list[Row] = []
    for place, turn in enumerate(turns):
        chat.append(dict(turn))
        if turn["role"] == "assistant":
            calls = chat[-1]["tool_calls"] = []
        elif turn["role"] == "tool":
            calls.append({"id": str(place), "function": "tool", "arguments": {}})
            chat[-1]["tool_call_id"] = str(place)
    return chat


def _sample(member: Member, row: Row, model: str) -> Row:
    """A rollout as a sample, but for its id and epoch."""
    head, before = member.head, asked(member.head, row)
    chat = _chat([*before, *row["messages"]])
    said = [turn for turn in chat[len(before) :] if turn["role"] == "assistant"]
    last = said[-1] if said else None
    about = {name: head.get(name) for name in ("step", "prompt", "category", "benchmark")}
    about |= {name: row.get(name) for name in ("rollout", "tokens", "truncated", "trained")}
    known = {name: value for name, value in about.items() if value is not None}
    stop = "max_tokens" if row["truncated"] else "stop"
    choices = [{"message": last, "stop_reason": stop}] if last else []
    failure = row["failure"]
    raised = {"message": failure, "traceback": failure, "traceback_ansi": failure}
    return {
        "input": chat[: len(before)],
        "target": str(head.get("reference") or ""),
        "messages": chat,
        "output": {"model": model, "choices": choices},
        "scores": _scores(row, last["content"] if last else ""),
        "metadata": known,
        "model_usage": _usage(model, row["tokens"]),
        "error": raised if failure else None,
    }


def _usage(model: str, tokens: int) -> Row:
    return {model: {"output_tokens": tokens, "total_tokens": tokens}}


def _scores(row: Row, answer: str) -> Row | None:
    """The reward, or a judge's score, then what the reward function reported beside it."""
    name = "score" if "score" in row else "reward"
    if row[name] is None:
        return None
    shown = answer if len(answer) <= _SHOWN else f"…{answer[-_SHOWN:]}"
    scores = {name: {"value": row[name], "answer": shown}}
    parts = row.get("parts") or {}
    return scores | {part: {"value": value} for part, value in parts.items() if part != name}


def _summary(sample: Row) -> Row:
    """A row of the list of samples."""
    questions = [turn["content"] for turn in sample["input"] if turn["role"] == "user"]
    kept = ("id", "epoch", "target", "scores", "metadata", "model_usage")
    return {
        **{name: sample[name] for name in kept},
        "input": "".join(questions[-1:])[:_PROMPT],
        "error": sample["error"] and sample["error"]["message"],
        "completed": True,
        "message_count": len(sample["messages"]),
    }
