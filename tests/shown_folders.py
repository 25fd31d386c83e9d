"""Run folders that are shown, with logs and transcripts as tests want them."""

import json
import os

from metis.run.transcripts import Transcripts, segments


def message(text, role="assistant"):
    return {"role": role, "content": text}


class Folder:
    """A run folder that a test fills."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        (path / "config.json").write_text(json.dumps({"seed": 0, "curriculum": "metis"}))
        (path / "metrics.jsonl").write_text('{"step": 0}\n')

    def log(self, name, *rows):
        with (self.path / f"{name}.jsonl").open("a") as file:
            file.writelines(f"{json.dumps(row)}\n" for row in rows)

    def say(self, prompt, *answers, step=1, kind="train", rewards=None, **head):
        """A group of a transcript: texts, or messages."""
        rewards = rewards or [float(place % 2) for place in range(len(answers))]
        rows = [
            {
                "rollout": place,
                "messages": [{"role": "assistant", "content": said}]
                if isinstance(said, str)
                else said,
                "reward": reward,
                "tokens": 10 + place,
                "truncated": False,
                "failure": None if reward is not None else "TypeError: no number (my.py, line 3)",
            }
            for place, (said, reward) in enumerate(zip(answers, rewards, strict=True))
        ]
        asked = [{"role": "user", "content": f"What is {prompt}?"}]
        head = {"step": step, "prompt": prompt, "category": "sums", "messages": asked, **head}
        Transcripts(self.path).append(kind, {**head, "n": len(answers)}, rows)

    def lengths(self):
        """The length of every transcript."""
        return {file: file.stat().st_size for file in segments(self.path)}

    def cut(self, lengths):
        """Cut the transcripts back to what they were."""
        for file in segments(self.path):
            if file in lengths:
                os.truncate(file, lengths[file])
            else:
                file.unlink()
