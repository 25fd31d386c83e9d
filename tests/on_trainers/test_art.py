"""The example for ART: its gathering, trajectories and client, and a model on a loopback server."""

import asyncio
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import art
import pytest

import art_scenarios
import metis

pytestmark = pytest.mark.filterwarnings("ignore")


class Handler(BaseHTTPRequestHandler):
    """Knows every other answer of products by an odd number; refuses products by 13."""

    asked = 0

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        a, b = map(int, re.findall(r"\d+", body["messages"][-1]["content"]))
        Handler.asked += 1
        text = str(a * b) if a % 2 and Handler.asked % 2 else "?"
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        said = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
        self.send_response(400 if a == 13 else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({**said, "choices": [choice]}).encode())

    def log_message(self, *said):
        pass


class Listening(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


@pytest.fixture
def model(tmp_path):
    server = Listening(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    yield art.Model(
        name="served",
        project="products",
        base_path=str(tmp_path),
        inference_api_key="none",
        inference_base_url=url,
    )
    server.shutdown()
    server.server_close()


def gathered(selector, model, steps=1):
    async def all_of_it():
        return [await art_scenarios.gather(selector, model) for _ in range(steps)]

    return asyncio.run(all_of_it())


def selector(curriculum, numbers, batch=4):
    rows = [row for row in art_scenarios.SCENARIOS if int(row["prompt"].split()[2]) in numbers]
    return metis.Selector(rows, curriculum, batch=batch, group=4, steps=20)


def test_every_group_is_observed_with_its_rewards(model):
    chosen = selector("mopps", {2, 3})
    for groups in gathered(chosen, model, 3):
        assert {len(group) for group in groups} == {4} and len(groups) == 4
        mixed = [0 < sum(made.reward for made in group) < 4 for group in groups]
    assert groups[0].trajectories[0].messages()[-1]["role"] == "assistant"
    metrics = chosen.metrics()
    assert metrics["selector/ended"] == 3 and not metrics["selector/outstanding"]
    assert metrics["batch/informative"] == sum(mixed) / 4


def test_groups_that_the_curriculum_leaves_out_are_not_trained_on(model):
    chosen = selector("dapo", {2, 3, 4})
    [groups] = gathered(chosen, model)
    assert groups and all(0 < sum(made.reward for made in group) < 4 for group in groups)
    assert chosen.metrics()["selector/picks"] > len(groups)


def test_failed_rollouts_are_counted_up_to_a_tenth(model):
    rare = {"prompt": "What is 13 * 2?", "answer": 26}
    rows = [row for row in art_scenarios.SCENARIOS if row["prompt"].startswith("What is 3 *")][:19]
    chosen = metis.Selector([*rows, rare], "uniform", batch=20, group=4)
    [groups] = gathered(chosen, model)
    assert len(groups) == 19 and chosen.metrics()["selector/failed"] == 4
    with pytest.raises(Exception, match="400"):
        gathered(selector("uniform", {3, 13}, batch=20), model)
