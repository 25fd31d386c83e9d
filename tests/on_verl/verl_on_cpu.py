"""verl on a CPU, through its own extension points: a platform, and a rollout server.

verl 0.9.1 has neither. Imported in every process by VERL_USE_EXTERNAL_MODULES. The server is a
transformers model in a Ray actor that samples token by token; it refuses to speak while it sleeps.
What it says depends on the prompt and on how often that was asked, not on which request came first;
with a seed, on the prompt and the seed alone.
"""

import asyncio
import contextlib
import copy
import functools
import os
import types
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import ray
import torch
from peft import (
    LoraConfig,
    get_peft_model,
    get_peft_model_state_dict,
    set_peft_model_state_dict,
)
from safetensors.torch import save_file
from verl.plugin.platform import PlatformBase, PlatformRegistry
from verl.utils import distributed
from verl.utils import model as models
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.base import _ROLLOUT_REGISTRY, BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

import held
from metis.engines.verl.launch import checks
from metis.engines.verl.servers import in_server

SYNCED = "METIS_TESTS_SYNCED"
"""Names a folder for every adapter that a server was given, by its version and its rank."""


class _Device(types.ModuleType):
    """`torch.cpu`, with what verl expects of an accelerator's module."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)


def _nothing(*_: Any, **__: Any) -> None:
    return None


device = _Device("cpu_device")
for name in ("empty_cache", "ipc_collect", "set_device"):
    setattr(device, name, _nothing)
for name in ("memory_allocated", "memory_reserved"):
    setattr(device, name, lambda *_: 0)
    setattr(device, f"max_{name}", lambda *_: 0)
device.is_available = lambda: False
device.mem_get_info = lambda *_: (0, 0)
device.get_device_name = lambda *_: "CPU"
device.get_rng_state, device.set_rng_state = torch.get_rng_state, torch.set_rng_state
device.manual_seed = device.manual_seed_all = torch.manual_seed


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """Chosen by VERL_PLATFORM=cpu only. Ray is told of GPUs, since verl counts nothing else."""

    device_name = vendor_name = "cpu"
    device_module = device

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def is_ipc_supported(self) -> bool:
        return False

    @contextlib.contextmanager
    def nvtx_range(self, msg: str):
        yield

    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)
    set_device = synchronize = empty_cache = set_allocator_settings = _nothing
    profiler_start = profiler_stop = cudart = _nothing


# verl asks for "cpu:gloo,cpu:gloo", which torch takes for a mistake.
distributed.initialize_global_process_group_ray = functools.partial(
    distributed.initialize_global_process_group_ray, backend="gloo"
)


def _load_value_model(local_path: str, torch_dtype: Any, model_config: Any, **_: Any) -> Any:
    """verl loads every critic with flash-attention, which is for GPUs."""
    from transformers import AutoModelForTokenClassification

    return AutoModelForTokenClassification.from_pretrained(
        local_path, dtype=torch_dtype, config=model_config, attn_implementation="eager"
    )


models.load_valuehead_model = _load_value_model
checks.critics_load = lambda: True


@ray.remote(num_cpus=0)
class TransformersServer:
    """One copy of the model that answers token lists, one token at a time."""

    def __init__(self, model_config: Any, response_length: int, raw: bool) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        path = omega_conf_to_dataclass(model_config).local_path
        self.model = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        self.end = self.model.config.eos_token_id
        self.adapted = model_config.lora_rank > 0
        if self.adapted:
            rank, alpha = model_config.lora_rank, model_config.lora_alpha
            lora = LoraConfig(r=rank, lora_alpha=alpha, target_modules=model_config.target_modules)
            self.model = get_peft_model(self.model, lora)
        self.model.requires_grad_(False)
        self.response_length, self.raw = response_length, raw
        self.asked: Counter[tuple[int, ...]] = Counter()
        self.asleep, self.global_steps = False, None
        self.read: dict[tuple[int, ...], Any] = {}

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: Any = None,
        video_data: Any = None,
        **_: Any,
    ) -> TokenOutput:
        assert not self.asleep, "asked to generate while asleep"
        limit = sampling_params.get("max_tokens", self.response_length)
        temperature = sampling_params.get("temperature", 1.0)
        biases = sampling_params.get("logit_bias") or {}
        tokens, logprobs = [], []
        held.at("rollout" if sampling_params.get("temperature", 1.0) else "validation")
        self.asked[(*prompt_ids,)] += 1
        turn = sampling_params.get("seed", self.asked[(*prompt_ids,)])
        generator = torch.Generator().manual_seed(
            zlib.crc32(bytes(f"{prompt_ids} {turn}", "ascii"))
        )
        output = self._read(prompt_ids, alone="seed" in sampling_params)
        while len(tokens) < limit:
            logits = output.logits[0, -1]
            biased = logits.clone()
            for forced, bias in biases.items():
                biased[forced] += bias
            scores = torch.log_softmax(biased / (temperature or 1.0), -1)
            reported = torch.log_softmax(logits, -1) if self.raw else scores
            if temperature == 0:
                token = int(scores.argmax())
            else:
                token = int(torch.multinomial(scores.exp(), 1, generator=generator))
            tokens.append(token)
            logprobs.append(float(reported[token]))
            if token == self.end:
                break
            await asyncio.sleep(0)
            output = self.model(
                torch.tensor([[token]]), past_key_values=output.past_key_values, use_cache=True
            )
        return TokenOutput(
            token_ids=tokens,
            log_probs=logprobs if sampling_params.get("logprobs") else None,
            stop_reason="completed",
            extra_fields={"global_steps": self.global_steps},
        )

    async def score(self, question: in_server.Question) -> list[float]:
        """Given tokens at the end of a prompt, as the judge asks for them from inside."""
        assert not self.asleep, "asked to score while asleep"
        await asyncio.sleep(0)
        logprobs = torch.log_softmax(self._read(question.prompt).logits[0, -1], -1)
        return logprobs[question.tokens].tolist()

    def _read(self, prompt: list[int], alone: bool = False) -> Any:
        """The prompt's pass, on top of the longest prompt before that it begins with, or alone."""
        if alone:
            return self.model(torch.tensor([prompt]), use_cache=True)
        known = [old for old in self.read if prompt[: len(old)] == list(old) and old < (*prompt,)]
        start = max(known, key=len, default=())
        past = copy.deepcopy(self.read[start]) if start else None
        rest = torch.tensor([prompt[len(start) :]])
        output = self.model(rest, past_key_values=past, use_cache=True)
        self.read[tuple(prompt)] = copy.deepcopy(output.past_key_values)
        while len(self.read) > 16:
            del self.read[next(iter(self.read))]
        return output

    async def load(self, weights: dict[str, torch.Tensor], global_steps: int) -> None:
        model = self.model.get_base_model() if self.adapted else self.model
        missing, unexpected = model.load_state_dict(weights, strict=False)
        missing = [name for name in missing if "lora_" not in name]
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
        self._awake(global_steps)

    async def adapt(self, weights: dict[str, torch.Tensor], global_steps: int) -> None:
        """Take an adapter, which has to be whole; its base came by `load`."""
        expected = get_peft_model_state_dict(self.model)
        assert weights.keys() == expected.keys(), (weights.keys(), expected.keys())
        set_peft_model_state_dict(self.model, weights)
        self._awake(global_steps)

    def _awake(self, global_steps: int) -> None:
        self.asleep, self.global_steps = False, global_steps
        self.read.clear()

    async def sleep(self, *_: Any, **__: Any) -> None:
        self.asleep = True

    async def wake_up(self, *_: Any, **__: Any) -> None:
        self.asleep, self.loop = False, asyncio.get_running_loop()

    async def control(self, *_: Any, **__: Any) -> None:
        return None

    abort_all_requests = resume_generation = clear_kv_cache = control
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = control


class TransformersReplica(RolloutReplica):
    """One server for each worker."""

    async def launch_servers(self) -> None:
        server = TransformersServer.options(
            name=f"transformers_server_{self.replica_rank}", max_concurrency=self.max_concurrency
        ).remote(
            self.model_config,
            self.config.response_length,
            self.config.logprobs_mode == "raw_logprobs",
        )
        await server.wake_up.remote()
        self.servers, self._server_handle = [server], server
        self._server_address = f"transformers:{self.replica_rank}"


class TransformersAdapter(BaseRollout):
    """Hands the actor's weights to the server of its rank."""

    sleep_level = 2

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1):
        super().__init__(config, model_config, device_mesh)

    async def resume(self, tags: list[str]) -> None:
        return None

    async def release(self) -> None:
        return None

    async def update_weights(
        self,
        weights: Any,
        global_steps: int | None = None,
        peft_config: dict[str, Any] | None = None,
        base_sync_done: bool = False,
        **_: Any,
    ) -> None:
        copies = {name: weight.detach().cpu().float().clone() for name, weight in weights}
        rank = os.environ["RANK"]
        server = ray.get_actor(f"transformers_server_{rank}")
        if peft_config is None or not base_sync_done:
            await server.load.remote(copies, global_steps)
            return
        await server.adapt.remote(copies, global_steps)
        if folder := os.environ.get(SYNCED):
            save_file(copies, Path(folder) / f"{global_steps}-{rank}.safetensors")


async def through_transformers(server: Any) -> in_server.Ask:
    return server.score


in_server.BACKENDS["transformers"] = in_server.Backend(
    through_transformers, lambda server: server.loop
)
RolloutReplicaRegistry.register("transformers", lambda: TransformersReplica)
_ROLLOUT_REGISTRY["transformers", "async"] = f"{__name__}.TransformersAdapter"
