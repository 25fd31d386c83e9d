"""`metis export` with verl's own merger, on shards as FSDP leaves them on one rank."""

import json
from dataclasses import asdict

import pytest
import torch
from transformers import AutoModelForCausalLM

from integration.conftest import save_tiny
from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings
from metis.export.write import export

TOKENS = torch.arange(3, 40)[None]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("lora", [0, 2])
def test_shards_are_merged_and_adapters_too(model, tmp_path, lora):
    settings = LocalSettings(model=str(model), device="cpu", lora=lora)
    policy = Policy(model, settings)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in policy.trainable:
            parameter.add_(0.05 * torch.randn_like(parameter))
    run = tmp_path / "run"
    actor = run / "verl/global_step_3/actor"
    policy.base.config.save_pretrained(actor / "huggingface")
    policy.tokenizer.save_pretrained(actor / "huggingface")
    (actor / "fsdp_config.json").write_text('{"FSDP_version": 1, "world_size": 1}')
    torch.save(policy.network.state_dict(), actor / "model_world_size_1_rank_0.pt")
    if lora:
        about = {"r": lora, "lora_alpha": 2 * lora, "task_type": "CAUSAL_LM"}
        (actor / "lora_train_meta.json").write_text(json.dumps(about))
    (run / "verl/latest_checkpointed_iteration.txt").write_text("3")
    config = {"engine": {"name": "verl", **asdict(settings)}, "curriculum": {"name": "uniform"}}
    (run / "config.json").write_text(json.dumps(config))
    (run / "metrics.jsonl").write_text('{"step": 3}\n')

    found = export(run, tmp_path / "model", say=lambda text: None)
    assert found.step == 3
    network = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    with torch.no_grad():
        here, there = (each(input_ids=TOKENS).logits for each in (network, policy.network))
    assert torch.allclose(here, there, atol=0.05 * float(there.abs().max())), "to bfloat16"
    assert (tmp_path / "model/tokenizer.json").exists()
    assert "verl's own command line" in (tmp_path / "model/README.md").read_text()
    assert not [path.name for path in (tmp_path / "model").iterdir() if path.is_dir()]
