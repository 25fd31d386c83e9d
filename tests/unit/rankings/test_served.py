"""`metis judge --server`: what servers are asked, rewards of their replies, and kill -9."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from judged import rows, written
from metis.cli import main
from waiting import wait_until

MADE = ("ranking.jsonl", "judge.html", "predictions.jsonl", "calibration/outcomes.jsonl")


class Listening(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True


class Server:
    """A model that passes prompts by their level: every reply to a prompt is the same.

    Odd levels are answered; of level 3 the answer is truncated. States are the level, one-hot.
    """

    def __init__(self):
        self.heard, self.keys = [], set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.heard.append((self.path, body))
                server.keys.add(self.headers.get("Authorization"))
                said = json.dumps(server.answer(self.path, body)).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *said):
                pass

        self.http = Listening(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    @staticmethod
    def answer(path, body):
        number, level = re.search(
            r"No. (\d+) of level (\d)", body["messages"][-1]["content"]
        ).groups()
        if path == "/pooling":
            return {"data": [{"data": [float(level == str(i)) for i in range(9)]}]}
        text = f"\\boxed{{{number}}}" if int(level) % 2 else "I do not know."
        finish = "length" if level == "3" else "stop"
        return {"choices": [{"message": {"content": text}, "finish_reason": finish}]}


@pytest.fixture
def server():
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def words(path, server, out):
    urls = ["--server", f"{server.url}/v1", "--pooling", server.url]
    return ["judge", "served", str(path), *urls, "group=2", "--calibrate", "40", "--out", str(out)]


def test_servers_roll_out_and_read_and_rewards_are_computed_here(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    path, out = written(tmp_path / "prompts.jsonl", rows(90)), tmp_path / "out"
    assert main(words(path, server, out)) == 0
    asked = {name: [body for at, body in server.heard if at == name] for name, _ in server.heard}
    assert set(asked) == {"/v1/chat/completions", "/pooling"} and server.keys == {"Bearer secret"}
    assert len(asked["/v1/chat/completions"]) == 40 * 2
    assert {body["model"] for _, body in server.heard} == {"served"}
    assert {body["max_tokens"] for body in asked["/v1/chat/completions"]} == {256}
    lines = (out / "calibration/outcomes.jsonl").read_text().splitlines()
    outcomes = [json.loads(line) for line in lines]
    for row in outcomes:
        level = int(row["prompt"].removeprefix("prompts:p")) % 9
        assert row["rewards"] == [float(level % 2)] * 2 and row["cut_off"] == 2 * (level == 3)
    assert "secret" not in "".join(file.read_text("utf-8") for file in out.glob("*.json*"))


def test_a_killed_ranking_goes_on_to_the_same_bytes(server, tmp_path):
    """kill -9 while it rolls out, and while it reads."""
    path, out = written(tmp_path / "prompts.jsonl", rows(1300)), tmp_path / "straight"
    assert main(words(path, server, out)) == 0
    expected = {name: (out / name).read_bytes() for name in MADE}
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "metis.cli", *words(path, server, out)]
    kills = 0
    for log in ("calibration/outcomes.jsonl", "predictions.jsonl"):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        file = out / log
        wait_until(lambda: file.exists() and file.stat().st_size > 0, process)  # noqa: B023
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills == 2 and not (out / "ranking.jsonl").exists()
    assert main(words(path, server, out)) == 0
    again = {name: (out / name).read_bytes() for name in MADE}
    assert again == expected
    assert not list(out.rglob("*.draft"))


def test_a_reward_that_fails_on_every_reply_is_refused(server, tmp_path, capsys):
    path = written(tmp_path / "prompts.jsonl", rows(90))
    reward = tmp_path / "mine.py"
    reward.write_text(
        "def score(reply, reference, row):\n"
        "    if reply in ('', '\\\\boxed{%s}' % reference) and 'know' not in reply:\n"
        "        return 0.0\n"
        "    raise ValueError('no such answer')\n"
    )
    even = [row for row in rows(90) if row["id"] and int(row["id"][1:]) % 9 in (0, 2, 4)]
    written(path, even)
    more = [f"task.reward={reward}:score"]
    assert main([*words(path, server, tmp_path / "out"), *more]) == 2
    said = capsys.readouterr().err
    assert "rollouts of a round failed: ValueError: no such answer" in said
