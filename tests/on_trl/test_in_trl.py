"""benchmarks/in_trl.py on a tiny model: what each arm counts, and that it is not trained twice."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def in_trl(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import in_trl

    return in_trl


def work(in_trl, model):
    sizes = {"prompts": 4, "group": 2, "tokens": 4, "passed": 8, "vllm": 0.0, "steps": 3}
    return in_trl.Work(str(model), "", **sizes)


@pytest.mark.parametrize("arm", ["trl", "uniform", "readout"])
def test_an_arm_trains_and_writes_what_its_steps_were(in_trl, tiny, tmp_path, monkeypatch, arm):
    scored = []

    def odd_places_are_informative(self, place, reply):
        scored.append(place)
        return float(place % 2 and len(scored) % 2)

    monkeypatch.setattr(in_trl.Problems, "score", odd_places_are_informative)
    in_trl.train(arm, work(in_trl, tiny), tmp_path / "arm.jsonl")
    lines = in_trl.lines(tmp_path / "arm.jsonl")
    groups = [scored[i : i + 8 : 2] for i in range(0, len(scored), 8)]
    assert [line["step"] for line in lines] == [0, 1, 2] and len(groups) == 3
    shares = [sum(place % 2 for place in step) / 4 for step in groups]
    assert [line["informative"] for line in lines] == shares
    assert all(line["seconds"] > line["embedding"] for line in lines)
    assert any(line["embedding"] for line in lines) == (arm == "readout")
    assert all(0 < line["tokens"] <= 4 for line in lines)


def test_an_arm_that_is_there_is_read_and_another_folder_is_refused(
    in_trl, tmp_path, monkeypatch, capsys
):
    line = (
        '{"step": 0, "seconds": 2, "embedding": 0, "informative": 0.5, "reward": 1, "tokens": 3}\n'
    )
    (tmp_path / "trl.jsonl").write_text(line * 4)
    words = ["in_trl.py", "--arms", "trl", "--out", str(tmp_path), "--skip", "1"]
    monkeypatch.setattr(sys, "argv", [*words, "--steps", "4"])
    in_trl.main()
    assert capsys.readouterr().out.splitlines()[-1].split()[:4] == ["trl", "0.500", "±", "0.000"]
    monkeypatch.setattr(sys, "argv", [*words, "--steps", "3"])
    with pytest.raises(SystemExit, match="name another --out"):
        in_trl.main()
