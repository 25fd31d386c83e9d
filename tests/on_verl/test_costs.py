"""The price of a judge is said to those who start verl themselves, and once to all others."""

import datasets
import pytest
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import PPOTrainerSync

from composing import composed
from metis.engines.verl.trainer import MetisTrainer
from metis.run.folder import RunFolder
from metis.settings.sections import curriculum_of

ROWS = [
    {
        "data_source": "sums",
        "prompt": [{"role": "user", "content": f"{i} + 1?"}],
        "extra_info": None,
    }
    for i in range(64)
]


class Dataset:
    """The part of verl's data set that the pool needs."""

    prompt_key, image_key, video_key, audio_key = "prompt", "images", "videos", "audios"
    dataframe = datasets.Dataset.from_list(ROWS)

    def __len__(self):
        return len(ROWS)


@pytest.fixture
def started(tmp_path, monkeypatch, capsys):
    """Starts a trainer whose data verl has read, and returns its output."""

    def read(trainer):
        trainer.train_dataset = trainer.val_dataset = Dataset()
        trainer.total_training_steps = 5

    monkeypatch.setattr(PPOTrainerSync, "_init_dataloader", read)

    def start(**knobs):
        trainer = MetisTrainer.__new__(MetisTrainer)
        trainer.config = composed(["data.train_batch_size=4"])
        trainer.config.trainer.default_local_dir = str(tmp_path / "verl")
        trainer.config.trainer.v1.metis.run = str(tmp_path / "run")
        trainer.settings = OmegaConf.to_container(trainer.config.trainer.v1.metis)
        trainer.curriculum = curriculum_of({"name": "metis", **knobs}, 4, 8)
        trainer._init_dataloader()
        trainer.journal.folder.close()
        return capsys.readouterr().out

    return start


def test_one_who_starts_verl_is_told_what_a_scored_judgment_costs(started):
    said = started(judge={"name": "direct", "replay": 0})
    assert "metis: curriculum.judge = 'direct': on verl each judgment repeats" in said


def test_a_judgment_of_one_row_needs_no_word(started):
    assert "trains" not in started(judge="reason")


def test_what_metis_train_has_said_is_not_said_again(started, tmp_path):
    RunFolder.open(tmp_path / "run", {"task": {"name": "arithmetic"}, "schema": 1}).close()
    assert "trains" not in started(judge="direct")
