"""Sources: files, and the hub, which is a server on this machine here."""

import functools
import http.server
import re
import sys
import threading

import pytest

from metis.data.sources import Hub, LocalSource, parse
from metis.errors import MetisError, pip_install

huggingface_hub = pytest.importorskip("huggingface_hub")

COMMIT = "a" * 40
USUAL = Hub("org/usual", COMMIT, ("data/train.parquet",))
BODY = b'{"problem": "1+1", "answer": "2"}\n' * 50


class Server(http.server.ThreadingHTTPServer):
    """A hub with one file; `fails` is a status and the hub's name for it, `cut` ends it early."""

    fails: tuple[int, str] | None = None
    cut = False

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.reply(b"")

    def do_GET(self):
        self.reply(BODY[:100] if self.server.cut else BODY)

    def reply(self, body):
        status, name = self.server.fails or (200, "")
        if not self.path.startswith("/datasets/org/usual/"):
            status, name = 401, "RepoNotFound"
        self.send_response(status)
        headers = {"X-Repo-Commit": COMMIT, "ETag": '"e"', "Content-Length": len(BODY)}
        if status != 200:
            body, headers = b"", {"X-Error-Code": name, "Content-Length": 0}
        for key, value in headers.items():
            self.send_header(key, str(value))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.server.cut

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The real client of the hub, sent to a server here, which it asks again without waiting."""
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        real = huggingface_hub.hf_hub_download
        here = functools.partial(real, endpoint=server.url, cache_dir=tmp_path / "cache")
        monkeypatch.setattr(huggingface_hub, "hf_hub_download", here)
        monkeypatch.setattr("time.sleep", lambda _: None)
        yield server
        server.shutdown()
        thread.join()


def refusal(act, *arguments):
    with pytest.raises(MetisError) as caught:
        act(*arguments)
    message = str(caught.value)
    assert "\n" not in message and message.startswith("dapo")
    return message


def test_a_file_of_the_hub_is_fetched_once(hub):
    [path] = USUAL.fetch("dapo")
    assert path.read_bytes() == BODY
    hub.fails = (500, "")
    assert USUAL.fetch("dapo") == [path]


@pytest.mark.parametrize(
    ("fails", "words"),
    [
        ((401, "RepoNotFound"), "the hub has no data set 'org/usual'"),
        ((404, "RevisionNotFound"), f"no revision '{COMMIT}'"),
        ((404, "EntryNotFound"), "no file 'data/train.parquet'"),
        ((403, "GatedRepo"), "terms accepted"),
        ((500, ""), "could not be fetched from the hub"),
    ],
)
def test_what_the_hub_refuses_is_one_line_with_a_way_out(hub, caplog, fails, words):
    hub.fails = fails
    message = refusal(USUAL.fetch, "dapo")
    assert words in message and "dapo=PATH" in message
    assert caplog.records == []


def test_a_wrong_id_is_one_line(hub):
    for wrong in ("org/other", "not an id/at all"):
        source = Hub(wrong, "main", ("a.parquet",))
        assert f"the hub has no data set {wrong!r}" in refusal(source.fetch, "dapo")


def test_no_hub_is_one_line(hub):
    hub.shutdown()
    hub.server_close()
    assert "could not be fetched from the hub" in refusal(USUAL.fetch, "dapo")


def test_a_download_that_breaks_off_is_one_line_and_leaves_no_file(hub, tmp_path):
    hub.cut = True
    assert "could not be fetched from the hub" in refusal(USUAL.fetch, "dapo")
    assert not list((tmp_path / "cache").rglob("*.parquet"))


def test_without_the_client_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MetisError, match=re.escape(pip_install("math"))):
        USUAL.fetch("dapo")


def test_sources_are_files_or_places_on_the_hub(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text("{}\n")
    assert parse(str(file), "dapo", USUAL) == LocalSource(file)
    assert parse("org/usual", "dapo", USUAL) == USUAL
    assert parse("org/usual@main", "dapo", USUAL) == Hub("org/usual", "main", USUAL.files)
    assert parse("o/n:x.jsonl,y.jsonl", "dapo", USUAL) == Hub("o/n", "main", ("x.jsonl", "y.jsonl"))
    assert parse("o/n@v1:d/x.parquet", "dapo", USUAL) == Hub("o/n", "v1", ("d/x.parquet",))
    for wrong in ("no.jsonl", "data/no.parquet", "/no/such/file.jsonl.gz", "", "plain"):
        assert "no such file" in refusal(parse, wrong, "dapo", USUAL)
    said = refusal(parse, "org/other@main", "dapo", USUAL)
    assert "no such file" in said and "dapo=org/other@main:FILE" in said
    assert "a folder" in refusal(parse, str(tmp_path), "dapo", USUAL)


def test_a_file_is_known_by_its_content(tmp_path):
    first, second = (tmp_path / name for name in ("a.jsonl", "b.jsonl"))
    first.write_text("{}\n")
    second.write_text("{}\n")
    assert LocalSource(first).fingerprint == LocalSource(second).fingerprint
    second.write_text("{ }\n")
    assert LocalSource(first).fingerprint != LocalSource(second).fingerprint
