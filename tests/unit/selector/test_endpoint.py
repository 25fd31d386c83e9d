"""A served model, on a loopback server: what is sent, what is read, and every way it can fail."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from metis import AsyncSelector, MetisError, Prompt, Selector
from metis.core import Complete, Embed, Predict, Sampling
from metis.core.predictors import ValueModel
from metis.selector import Endpoint

ROWS = [{"prompt": f"What is {i} + 1?"} for i in range(40)]
MODELS = {"data": [{"id": "served"}]}


class Listening(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True


class Server:
    """Answers as its table says: a path's JSON, text or status, or a function of the body."""

    def __init__(self):
        self.answers = {"/v1/models": MODELS, "/pooling": self.pool}
        self.heard, self.keys = [], set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(None)

            def do_POST(self):
                self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def answer(self, body):
                server.heard.append((self.path, body))
                server.keys.add(self.headers.get("Authorization"))
                said = server.answers.get(self.path, 404)
                said = said(body) if callable(said) else said
                status, content = (
                    (said, {"error": "not here"}) if isinstance(said, int) else (200, said)
                )
                content = content if isinstance(content, str) else json.dumps(content)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(content.encode())

            def log_message(self, *said):
                pass

        self.http = Listening(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    @staticmethod
    def pool(body):
        text = body["messages"][-1]["content"]
        return {"data": [{"index": 0, "data": [float(len(text)), 1.0]}]}


@pytest.fixture
def server():
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def chat(prompt):
    return [{"role": "user", "content": prompt.text}]


def test_a_pooling_endpoint_answers_for_the_readout(server):
    settings = {"preset": "readout", "judge": {"layer": 1.0}}
    selector = Selector(ROWS, "metis", batch=4, group=2, ask=f"{server.url}/v1/", **settings)
    for pick in selector.propose():
        selector.observe(pick.id, [0.0, 1.0])
    assert len(selector.propose()) == 4
    (first, _), *rest = server.heard
    assert first == "/v1/models" and len(rest) == 2 * 32
    assert {path for path, _ in rest} == {"/pooling"}
    bodies = [body for _, body in rest]
    assert all(body["model"] == "served" and body["task"] == "embed" for body in bodies)
    assert all(body["add_generation_prompt"] for body in bodies)
    assert {body["messages"][0]["content"] for body in bodies} <= {r["prompt"] for r in ROWS}


def test_rows_that_are_chats_are_sent_whole(server):
    talk = [{"role": "system", "content": "Count."}, {"role": "user", "content": "How many?"}]
    rows = [{"prompt": talk, "id": "talk"}, *[{**row, "id": i} for i, row in enumerate(ROWS)]]
    Selector(rows, "probe", batch=41, group=2, ask=server.url).propose()
    assert talk in [body["messages"] for _, body in server.heard if body]


async def _propose(url):
    return await AsyncSelector(ROWS, "probe", batch=4, group=2, ask=url).propose()


def test_the_async_twin_waits_for_it_in_a_thread(server):
    assert len(asyncio.run(_propose(server.url))) == 4


def test_states_of_every_token_end_with_the_last(server):
    server.answers["/pooling"] = {"data": [{"data": [[1.0, 2.0], [3.0, 4.0]]}]}
    [vector] = Endpoint(server.url).answer(Embed([Prompt("a", "b")]), chat)
    assert vector.tolist() == [3.0, 4.0]


def test_replies_are_chat_completions(server):
    said = {"message": {"content": "0.12"}, "finish_reason": "length"}
    server.answers["/v1/chat/completions"] = {"choices": [said]}
    endpoint = Endpoint(server.url, model="mine", key="secret")
    [reply] = endpoint.answer(Complete([chat(Prompt("a", "b"))], Sampling(8, 0.5)), chat)
    assert (reply.text, reply.finish) == ("0.12", "length")
    [(_, body)] = server.heard
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("mine", 8, 0.5)
    assert server.keys == {"Bearer secret"} and "secret" not in repr(endpoint)


@pytest.mark.parametrize(
    ("path", "answer", "said"),
    [
        ("/pooling", 404, "/pooling: HTTP 404 .* vllm serve MODEL --runner pooling"),
        ("/pooling", 500, "/pooling: HTTP 500 .*not here"),
        ("/pooling", "<html>", "/pooling answered with no JSON"),
        ("/pooling", {"data": []}, r"/pooling answered something else: {\"data\": \[\]}"),
        ("/pooling", {"data": [{"data": "base64"}]}, "/pooling answered something else"),
        ("/v1/models", {"data": []}, "/v1/models answered something else"),
        ("/v1/models", 401, "/v1/models: HTTP 401"),
    ],
)
def test_a_server_that_fails_is_named_and_asked_again(server, path, answer, said):
    before, server.answers[path] = server.answers[path], answer
    selector = Selector(ROWS, "probe", batch=4, group=2, ask=server.url)
    with pytest.raises(MetisError, match=said):
        selector.propose()
    server.answers[path] = before
    assert len(selector.propose()) == 4


def test_no_server_is_said(server):
    url = server.url
    server.http.server_close()
    server.http.shutdown()
    with pytest.raises(MetisError, match=f"ask = {url}/v1/models: no answer .*; is it served?"):
        Selector(ROWS, "probe", batch=4, group=2, ask=url).propose()


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        (
            "metis",
            {"preset": "readout"},
            "reads layers at the depths 0.66.*layer=1",
        ),
        ("pcl", {}, "'pcl' asks for Fit, which a URL does not answer"),
    ],
)
def test_what_an_endpoint_cannot_answer_is_refused_at_once(name, settings, said):
    with pytest.raises(MetisError, match=said):
        Selector(ROWS, name, batch=4, group=2, ask="http://127.0.0.1:9", **settings)


def test_an_address_without_a_scheme_is_refused():
    with pytest.raises(MetisError, match="ask = 'localhost:8000': a URL starts with http"):
        Selector(ROWS, "probe", ask="localhost:8000")
    with pytest.raises(MetisError, match="does not answer Predict"):
        Endpoint("http://127.0.0.1:9").answer(Predict([Prompt("a", "b")], ValueModel()), chat)
