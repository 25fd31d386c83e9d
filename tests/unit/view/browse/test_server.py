"""The server of the page: loopback alone, GET alone, and nothing for another site."""

import http.client
import json
import socket
import threading

import pytest

from metis.errors import MetisError
from metis.run.recorded import read_runs
from metis.view.browse import data
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
    with Server(read_runs([folder]), 0) as served:
        thread = threading.Thread(target=served.serve_forever)
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


@pytest.mark.parametrize("name", data.FILES)
def test_every_file_of_the_page_is_served_as_what_it_is(server, name):
    answer, content = ask(server, f"/{name}")
    assert answer.status == 200 and content == data.read(name)
    assert answer.headers["Content-Type"] == data.FILES[name]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_a_run_is_read_again_whenever_it_is_asked_for(server, folder):
    before = ask(server, "/data/0.js")[1]
    assert before.startswith(b"metis.add(0, {") and json.loads(before[13:-3])["rows"]
    with (folder / "rollouts.jsonl").open("a") as log:
        log.write('{"step": 2, "prompt": "new", "rewards": [1.0, 1.0]}\n')
    assert b'"new"' in ask(server, "/data/0.js?again")[1]
    with (folder / "rollouts.jsonl").open("a") as log:
        log.write('{"step": 3, "pro')
        log.flush()
        assert b'"new"' in ask(server, "/data/0.js")[1], "a line that is still being written"
        log.write("\n")
    assert ask(server, "/data/0.js")[1].startswith(b'metis.fail(0, "')


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "evil.example:80"])
def test_a_rebound_name_is_refused(server, host):
    answer, content = ask(server, "/data/0.js", Host=host)
    assert answer.status == 403 and b"metis.add" not in content


def test_localhost_is_this_machine(server):
    assert ask(server, "/", Host=f"localhost:{server.port}")[0].status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_may_not_load_a_run(server, site):
    answer, content = ask(server, "/data/0.js", **{"Sec-Fetch-Site": site})
    assert answer.status == 403 and b"metis.add" not in content
    assert ask(server, "/", **{"Sec-Fetch-Site": site})[0].status == 200, "a link may lead here"
    assert ask(server, "/")[0].headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
def test_only_get_is_answered(server, method):
    answer, _ = ask(server, "/data/0.js", method)
    assert answer.status == 405 and answer.headers["Allow"] == "GET"


@pytest.mark.parametrize(
    "path",
    [
        *("/config.json", "/../config.json", "/%2e%2e/x", "/vendor/x.js"),
        *("/data/1.js", "/data/-1.js", f"/data/{'9' * 5000}.js"),
    ],
)
def test_nothing_else_can_be_had(server, path):
    assert ask(server, path)[0].status == 404


def test_a_port_that_is_taken_is_one_clear_line(server, folder):
    with pytest.raises(MetisError, match=f"--port {server.port} cannot be used .*0 takes one"):
        Server(read_runs([folder]), server.port)
    with pytest.raises(MetisError, match="--port 70000 cannot be used"):
        Server(read_runs([folder]), 70000)


def test_a_browser_that_leaves_says_nothing(server, capsys):
    with socket.create_connection(("127.0.0.1", server.port)) as left:
        left.sendall(b"GET /vendor/pico.css HTTP/1.1\r\n")
    assert ask(server)[0].status == 200
    assert capsys.readouterr().err == ""
