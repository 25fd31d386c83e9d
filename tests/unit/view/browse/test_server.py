"""The server of the page: loopback alone, GET alone, and nothing for another site."""

import http.client
import json
import socket
import threading
import time
from urllib.parse import quote

import pytest

from metis.errors import MetisError
from metis.view.browse import assets
from metis.view.browse.server import Server


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"seed": 0, "curriculum": "metis"}))
    (tmp_path / "metrics.jsonl").write_text('{"step": 0}\n')
    row = {"step": 1, "prompt": "</script><script>alert(1)</script>", "rewards": [0.0, 1.0]}
    (tmp_path / "rollouts.jsonl").write_text(f"{json.dumps(row)}\n")
    return tmp_path


@pytest.fixture
def server(folder):
    with Server([folder], 0) as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.01,))
        thread.start()
        yield served
        served.shutdown()
        thread.join()


def ask(server, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def test_it_listens_on_loopback_alone(server):
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("name", assets.FILES)
def test_every_file_of_the_page_is_served_as_what_it_is(server, name):
    answer, content = ask(server, f"/{name}")
    assert answer.status == 200 and content == assets.read(name)
    assert answer.headers["Content-Type"] == assets.FILES[name]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def told(server, path):
    """What the server answers to a path under /api/."""
    answer, content = ask(server, f"/api/{path}")
    assert answer.status == 200, content
    return json.loads(content)


def test_an_answer_is_json_and_nothing_else(server):
    answer, content = ask(server, "/api/folders")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert json.loads(content)[0]["kind"] == "run"
    answer, content = ask(server, "/api/7/overview")
    assert answer.status == 404 and json.loads(content) == {"error": "there is no such folder"}


def test_a_run_is_followed_while_it_grows(server, folder):
    before = told(server, "0/overview")["revision"]
    with (folder / "rollouts.jsonl").open("a") as log:
        log.write('{"step": 2, "prompt": "new", "rewards": [1.0, 1.0]}\n')
    wait_for(lambda: told(server, "0/overview")["revision"] != before)
    assert told(server, "0/prompt?id=new")["history"][0]["outcome"] == "all-pass"
    with (folder / "rollouts.jsonl").open("a") as log:
        log.write('{"step": 3, "pro')
        log.flush()
        time.sleep(1)
        assert told(server, "folders")[0]["wrong"] is None, "a line that is still being written"
        log.write("\n")
    wait_for(lambda: told(server, "folders")[0]["wrong"])
    assert "rollouts.jsonl, line 3" in told(server, "folders")[0]["wrong"]
    assert told(server, "0/prompt?id=new")["history"], "what is whole is still shown"


def wait_for(holds, seconds=20):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_hostile_ids_are_found_and_are_only_text(server):
    name = quote("</script><script>alert(1)</script>", safe="")
    assert told(server, f"0/prompt?id={name}")["history"][0]["rewards"] == [0.0, 1.0]
    for other in ("..%2F..%2Fconfig.json", "%00", "%ff", "'%20OR%201=1", "%ED%A0%80"):
        assert ask(server, f"/api/0/prompt?id={other}")[0].status == 404


@pytest.fixture
def guarded(folder):
    with Server([folder], 0, token="secret") as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.01,))
        thread.start()
        yield served
        served.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["/", "/view.js", "/api/folders"])
def test_with_a_token_nothing_is_answered_without_it(guarded, path):
    cookie = f"metis-{guarded.port}=secret"
    assert guarded.url.endswith("/?token=secret")
    assert ask(guarded, path)[0].status == 403
    assert ask(guarded, f"{path}?token=secre")[0].status == 403
    assert ask(guarded, f"{path}?token=%C3%A9")[0].status == 403
    assert ask(guarded, path, Cookie=f"{cookie}t")[0].status == 403
    assert ask(guarded, path, Cookie="metis-1=secret")[0].status == 403
    assert ask(guarded, path, Cookie=cookie)[0].status == 200
    answer, _ = ask(guarded, f"{path}?token=secret")
    assert answer.status == 200
    assert answer.headers["Set-Cookie"] == f"{cookie}; HttpOnly; SameSite=Strict; Path=/"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "evil.example:80"])
def test_a_rebound_name_is_refused(server, host):
    answer, content = ask(server, "/api/folders", Host=host)
    assert answer.status == 403 and b"kind" not in content


def test_localhost_is_this_machine(server):
    assert ask(server, "/", Host=f"localhost:{server.port}")[0].status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_may_not_load_a_run(server, site):
    answer, content = ask(server, "/api/0/overview", **{"Sec-Fetch-Site": site})
    assert answer.status == 403 and b"kind" not in content
    assert ask(server, "/", **{"Sec-Fetch-Site": site})[0].status == 200, "a link may lead here"
    assert ask(server, "/")[0].headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_only_get_is_answered(server, method):
    answer, _ = ask(server, "/api/folders", method)
    assert answer.status == 405 and answer.headers["Allow"] == "GET"


@pytest.mark.parametrize(
    "path",
    [
        *("/config.json", "/../config.json", "/%2e%2e/x", "/vendor/x.js"),
        *("/api/1/overview", "/api/-1/overview", f"/api/{'9' * 5000}/overview", "/api/"),
        *("/api/0/../../config.json", "/api/0/%2e%2e%2fconfig.json", "/vendor/LICENSE-preact.txt"),
    ],
)
def test_nothing_else_can_be_had(server, path):
    assert ask(server, path)[0].status == 404


def test_a_port_that_is_taken_is_one_clear_line(server, folder):
    with pytest.raises(MetisError, match=f"--port {server.port} cannot be used .*0 takes one"):
        Server([folder], server.port)
    with pytest.raises(MetisError, match="--port 70000 cannot be used"):
        Server([folder], 70000)


def test_a_browser_that_leaves_says_nothing(server, capsys):
    with socket.create_connection(("127.0.0.1", server.port)) as left:
        left.sendall(b"GET /vendor/preact.js HTTP/1.1\r\n")
    assert ask(server)[0].status == 200
    assert capsys.readouterr().err == ""
