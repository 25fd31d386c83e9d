"""Room for the checkpoints of a run on verl."""

import json
import shutil
from types import SimpleNamespace

import pytest

from metis.engines.verl.launch.space import space_notice

SIZES = {
    **{"vocab_size": 1000, "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128},
    **{"num_attention_heads": 4, "tie_word_embeddings": True},
}
WEIGHTS = 1000 * 64 + 2 * 64 * (4 * 64 + 3 * 128)
ADAPTERS = 2 * (4 * 64 + 2 * (64 + 64) + 3 * (64 + 128))


@pytest.fixture
def notice(tmp_path, monkeypatch):
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(SIZES))

    def notice(free, every=1, keep=1, lora=0, out=tmp_path / "runs" / "mine"):
        monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
        config = SimpleNamespace(
            training=SimpleNamespace(checkpoints=SimpleNamespace(every=every, keep=keep)),
            engine=SimpleNamespace(model=str(model), lora=lora),
        )
        return space_notice(config, out)

    return notice


def test_three_checkpoints_are_kept_at_least(notice):
    needed = 3 * 16 * WEIGHTS
    assert notice(needed) is None
    assert "checkpoints.every=0" in notice(needed - 1)
    assert notice(needed + 16 * WEIGHTS, keep=3) is None
    assert notice(needed + 16 * WEIGHTS - 1, keep=3)
    assert notice(0, every=0) is None


def test_those_that_are_there_have_their_room_and_adapters_take_less(notice, tmp_path):
    out = tmp_path / "run"
    (out / "verl" / "global_step_1").mkdir(parents=True)
    assert notice(2 * 16 * WEIGHTS, out=out) is None and notice(2 * 16 * WEIGHTS - 1, out=out)
    small = 3 * (4 * WEIGHTS + 12 * 2 * ADAPTERS)
    assert notice(small, lora=2) is None and notice(small - 1, lora=2)
