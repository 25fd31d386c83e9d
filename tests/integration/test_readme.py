"""README's library example trains as it is written, on a tiny model in place of SmolLM2."""

from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_library_example_runs(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    example = README.read_text("utf-8").split("```python\n")[1].split("```")[0]
    assert '"smollm2-135m"' in example and len(example.splitlines()) <= 12
    exec(example.replace('"smollm2-135m"', repr(str(tiny))), {})
    assert (tmp_path / "runs/first/report.html").exists()
    printed = capsys.readouterr().out.splitlines()[-1]
    assert "checkpoints" in printed and printed.endswith("report.html")
