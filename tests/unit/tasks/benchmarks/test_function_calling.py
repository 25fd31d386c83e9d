"""The bfcl suite: five categories of held-out dialogues, and the official verdict beside them."""

from pathlib import Path

import pytest

import bfcl_package
from metis.core import Sampling
from metis.errors import MetisError
from metis.evals import results, suite
from metis.evals.plan import BatchLimits
from metis.prepare.bfcl import PRESETS, DialogueSettings, prepare
from metis.tasks.benchmarks.catalogue import Manner, load
from metis.tasks.benchmarks.validation import Validated
from metis.tasks.bfcl.task import Bfcl, build

bfcl_package.require()
pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("bfcl")
    prepare(DialogueSettings(), out, say=lambda text: None)
    return out


class Solver:
    """Replays ground truths, all of the first sample and the first turn of the others."""

    def lengths(self, chats):
        return [len(chat[0]["content"]) for chat in chats]

    def answer(self, task, prompts, parts, seed):
        return [[self._play(task, prompt, k) for k in range(sum(parts))] for prompt in prompts]

    def _play(self, task, prompt, sample):
        if sample == 2:
            return suite.Answer((), 0, "failed", 0.0, "it broke")
        episode, said = task.episode(prompt), []
        for turn, calls in enumerate(episode.dialogue.truth):
            if calls and (sample == 0 or turn == 0):
                said.append(f"[{', '.join(calls)}]")
                episode.reply(said[-1])
            said.append("Done.")
            episode.reply(said[-1])
        reward = episode.reward()
        score = reward.pop("score")
        return suite.Answer(tuple(said), 1, "stop", score, report=reward)


class Silent:
    def advance(self, rows):
        pass


def test_the_suite_is_the_paper_s_table(folder, tmp_path):
    sets = load(["bfcl"], folder)
    assert [each.title for each in sets] == ["Base", "Miss-F", "Miss-P", "Long", "Comp."]
    assert [len(each.prompts) for each in sets] == [40] * 5
    asked = suite.Evaluation(
        [each.sample(3, 0) for each in sets], Sampling(64), 3, BatchLimits(8, 0), 8, 0
    )
    with suite.AnswerFolder.open(tmp_path / "eval", {"schema": 2}) as out:
        suite.answer_all(asked, Solver(), out, Silent())
        found = results.results(asked, [row for _, row in out.rows()], {"name": "solver"})
    for benchmark in found["benchmarks"].values():
        assert benchmark["scores"]["official"]["accuracy"] == pytest.approx(1 / 3)
        assert 1 / 3 < benchmark["scores"]["faithful"]["accuracy"] < 2 / 3
    table = results.markdown(found).splitlines()
    assert table[0].replace(" ", "") == "|model|Base|Miss-F|Miss-P|Long|Comp.|Avg.|"
    assert any("official verdict" in line and "33.3" in line for line in table)
    assert "mean@3" in results.markdown(found)


def test_a_run_s_settings_hold_in_its_test(folder):
    settings = Bfcl(steps=2, abstention="ignored")
    [found] = load(["bfcl_miss_func"], folder, Manner.of(settings))
    episode = found.task.episode(found.prompts[0])
    assert (episode.steps, episode.abstention) == (2, "ignored")


def test_a_run_is_tested_with_the_dialogues_that_it_held_out(folder, tmp_path, monkeypatch):
    """Another split holds out dialogues that the run was trained on."""
    monkeypatch.delenv("METIS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    run = Bfcl(heldout_path=str(folder / "heldout.parquet"))
    [benchmark] = load(["bfcl_base"], manner=Manner.of(run))
    assert len(benchmark.prompts) == 40
    with pytest.raises(MetisError, match=r"'data/bfcl/heldout.parquet': no such file"):
        load(["bfcl_base"])
    with pytest.raises(MetisError, match=r"'elsewhere/heldout.parquet': no such file"):
        load(["bfcl_base"], Path("elsewhere"), Manner.of(run))


def test_dialogues_in_both_halves_are_told(folder, tmp_path, monkeypatch):
    def notices(data):
        monkeypatch.setenv("METIS_DATA", str(data))
        paths = (str(data / "train.parquet"), str(data / "heldout.parquet"))
        return Validated(build(Bfcl(*paths), 0), ["bfcl"]).notices

    prepare(PRESETS["paper"], tmp_path, say=lambda text: None)
    apart, together = notices(tmp_path), notices(folder)
    assert len(apart) == 5 and "also trained on" in apart[0]
    counts = [int(notice.split(": ")[1].split()[0]) for notice in together]
    assert sum(counts) <= 10, "different dialogues that begin alike"


def test_a_folder_without_dialogues_is_named(tmp_path):
    with pytest.raises(MetisError, match=r"benchmark bfcl_base = .*`metis prepare bfcl --out "):
        load(["bfcl_base"], tmp_path)
