"""Examples for a served model, on a loopback server, and for trainers that are not installed."""

import ast
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import metis
import openai_endpoint

ROOT = Path(__file__).parents[2]
ROWS = [row for row in openai_endpoint.ROWS if row["answer"] < 400]


class Handler(BaseHTTPRequestHandler):
    """A model that knows half of the answers of products by an odd number and no other."""

    def do_GET(self):
        self.say({"data": [{"id": "served"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        a, b = map(int, re.findall(r"\d+", body["messages"][-1]["content"]))
        if self.path == "/pooling":
            said = {"data": [{"data": [float(a % 2), b / 99, 1.0]}]}
        else:
            texts = [str(a * b) if a % 2 and i % 2 else "?" for i in range(body.get("n", 1))]
            said = {
                "choices": [{"message": {"content": t}, "finish_reason": "stop"} for t in texts]
            }
        self.say(said)

    def say(self, said):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    def log_message(self, *said):
        pass


class Listening(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True


@pytest.fixture
def url():
    server = Listening(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_prompts_are_ranked_with_a_served_model(url, tmp_path):
    ranking = openai_endpoint.rank(
        "served", url, url, ROWS[:200], out=tmp_path, calibrate=40, group=2
    )
    assert sorted(line["row"] for line in ranking) == list(range(1, 201))


def test_what_a_served_model_can_learn_from_is_found(url):
    readout = {"preset": "readout", "judge": {"layer": 1.0}, "ask": url}
    found = {}
    for name, settings in (("uniform", {}), ("metis", readout)):
        mixed, count = openai_endpoint.collect("served", url, name, 6, ROWS, **settings)
        assert count == 6 * 16
        assert all(0 < sum(group["rewards"]) < 8 == len(group["replies"]) for group in mixed)
        found[name] = len(mixed)
    assert found["metis"] > 1.3 * found["uniform"]


# The page


def test_the_page_selects_rolls_out_and_trains(url):
    text = (ROOT / "docs/other-trainers.md").read_text("utf-8")
    loop, asks, served = (part.split("```")[0] for part in text.split("```python\n")[1:])
    trained = []
    names = {
        "metis": metis,
        "rows": ROWS,
        "roll_out": lambda row, n: [float(row["answer"] % 2 and i % 2) for i in range(n)],
        "train_on": lambda pick, rewards: trained.append(pick.id),
        "hidden_states": lambda texts, depths: [[float(len(text)), *depths] for text in texts],
    }
    exec(loop.replace("500", "5"), names)
    assert len(trained) == 5 * 32 and names["selector"].metrics()["selector/ended"] == 5
    for block in (asks, served):
        exec(block.replace("http://localhost:8000", url), names)
        for _ in range(2):
            for pick in names["selector"].propose():
                names["selector"].observe(pick.id, names["roll_out"](pick.prompt, pick.n))
        assert names["selector"].metrics()["select/candidates"] == 256.0


# Trainers


def examples():
    """The examples that use a selector, and what they say at their top."""
    texts = {path.name: path.read_text("utf-8") for path in (ROOT / "examples").glob("*.py")}
    return {
        name: ast.get_docstring(ast.parse(text))
        for name, text in texts.items()
        if "metis.Selector(" in text
    }


def test_the_page_has_every_example_with_the_revision_that_it_names():
    page = (ROOT / "docs/other-trainers.md").read_text("utf-8")
    rows = page.split("## Examples")[1].split("\n\n")[2].splitlines()[2:]
    listed = {re.search(r"`(\w+\.py)`", row)[1]: row for row in rows}
    assert listed.keys() == examples().keys()
    for name, said in examples().items():
        for revision in re.findall(r"\b[0-9a-f]{8}\b|\b\d+\.\d+\.\d+\b", said):
            assert revision in listed[name], f"{name} names {revision}"


@pytest.mark.parametrize("trainer", ["slime", "prime_rl", "trinity"])
def test_what_was_not_run_says_so_and_which_revision_it_was_checked_against(trainer):
    [said] = [said for name, said in examples().items() if name.startswith(trainer)]
    assert "Not run in training." in said and re.search(r"\b[0-9a-f]{8}\b", said)
