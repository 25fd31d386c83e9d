"""A trainer for verl 0.9.1 that trains on the batch of a curriculum's plan.

Registered with verl's V1 trainers as `metis`: import this module (VERL_USE_EXTERNAL_MODULES) and
set trainer.v1.trainer_mode=metis. verl's own step is kept: old log-probabilities, advantages, actor
update and weight sync. The plan runs before it, while the rollout servers are awake with the
actor's current weights.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import transfer_queue
from omegaconf import OmegaConf, open_dict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import need_critic
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict

from metis.core import Batch
from metis.core.needs import needs_of
from metis.core.pool import Pool
from metis.curricula.registry import check_pool, pool_notice
from metis.engines.verl import checkpoints, ending, episodes, nodes, reward_manager
from metis.engines.verl.engine import VerlEngine
from metis.engines.verl.launch import checks
from metis.engines.verl.launch.checks import check_libraries
from metis.engines.verl.launch.costs import judge_cost
from metis.engines.verl.prompts import PromptData, overlong_notices
from metis.engines.verl.servers.judging import AddressedClient, Servers
from metis.engines.verl.servers.liveness import Liveness
from metis.engines.verl.servers.rollouts import PARTITION, VALIDATION, Rollouts
from metis.engines.verl.servers.weight_sync import WatchedSync
from metis.engines.verl.trainer.checkpointing import Validating
from metis.engines.verl.trainer.failures import Failures
from metis.engines.verl.trainer.journal import Journal
from metis.engines.verl.trainer.trackers import Trackers
from metis.engines.verl.workers import lengths, log_probabilities
from metis.engines.verl.workers.hidden_states import States
from metis.engines.verl.workers.loss import metis_loss
from metis.engines.verl.workers.rows import data_parallel_ranks, keep_rollout_logprobs
from metis.engines.verl.workers.update import Update
from metis.engines.verl.workers.values import ValueWorker
from metis.run import composition, loggers
from metis.run.budget import Account, Budget
from metis.run.meter import Meter
from metis.run.notices import Standstill, Truncations
from metis.run.recording import Heard
from metis.run.step import plan_step, step_metrics
from metis.settings.sections import curriculum_of

FRACTIONS = "some rewards lie between 0 and 1: set trainer.v1.metis.rewards=continuous"


class PlannedBuffer(ReplayBuffer):  # type: ignore[misc]
    """verl's replay buffer, but a step trains on the plan's rows.

    While it waits for validation answers, it checks that the workers are alive.
    """

    planned: KVBatchMeta
    liveness: Liveness
    hear: Callable[[Sequence[str]], None]
    """Called with the keys of validation answers while they are in the queue."""

    def sample(
        self, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[KVBatchMeta, dict[str, Any]]:
        if partition_id == PARTITION:
            return self.planned, {}
        sampled: tuple[KVBatchMeta, dict[str, Any]] = super().sample(
            global_steps, partition_id, batch_size
        )
        if partition_id == VALIDATION:
            self.hear(sampled[0].keys)
        return sampled

    def _wait_for_next_poll(self, *arguments: Any) -> Any:
        self.liveness.check()
        return super()._wait_for_next_poll(*arguments)


log_probabilities.patch_verl()  # verl imports this module in each of its processes
episodes.register_loop()
reward_manager.register_manager()


@register_trainer("metis")
class MetisTrainer(Validating):
    """verl's synchronous trainer, with a curriculum."""

    def __init__(self, config: Any) -> None:
        checks.check_config(config)
        check_libraries(config)
        checkpoints.prepare_resume(config.trainer)
        self.settings = OmegaConf.to_container(config.trainer.v1.metis, resolve=True)
        batch, group = config.data.train_batch_size, config.actor_rollout_ref.rollout.n
        self.curriculum = curriculum_of(self.settings["curriculum"], batch, group)
        checks.check_needs(config, needs_of(self.curriculum))
        self.batch: Batch | None = None
        self.heard: Heard = ()
        self.metrics = {}
        self.saved = 0
        self.learned = (Path(), ())
        self.update = Update(config)
        self.tested = False
        self.rewards = RewardCheck(self.settings["rewards"])
        longest = config.data.max_response_length
        self.truncations = Truncations(f"data.max_response_length = {longest}")
        self.standstill = Standstill()
        self.failures = Failures()
        self.trackers = Trackers(self.settings["loggers_every"])
        self.save_every, self.test_every = config.trainer.save_freq, config.trainer.test_freq
        super().__init__(config)

    # Setup

    def _build_replay_buffer(self) -> PlannedBuffer:
        self.trainer_mode = "sync"  # the base class's name for synchronous trainers
        with open_dict(self.config):
            self.config.trainer.v1.sampler.custom_sampler = {
                "path": f"pkg://{PlannedBuffer.__module__}",
                "name": PlannedBuffer.__name__,
            }
        buffer: PlannedBuffer = super()._build_replay_buffer()
        return buffer

    def _init_tokenizer(self) -> None:
        super()._init_tokenizer()
        needs, folder = needs_of(self.curriculum), self.tokenizer.name_or_path
        checks.check_choices(self.config, needs, self.tokenizer, folder)

    def init(self) -> None:
        with self._told():
            trainer, model = self.config.trainer, Path(self.config.actor_rollout_ref.model.path)
            nodes.check_room(trainer.nnodes, trainer.n_gpus_per_node)
            folder = Path(trainer.default_local_dir).absolute()
            nodes.check_shared(folder, "trainer.default_local_dir", [model] * model.is_absolute())
            with nodes.watched():
                super().init()

    def fit(self, agent_loop_manager: Any) -> None:
        with self._told(), nodes.watched():
            super().fit(agent_loop_manager)

    def _told(self) -> AbstractContextManager[None]:
        return ending.told(Path(self.config.trainer.default_local_dir), nodes.here())

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        for notice in overlong_notices(self.config.data, self.train_dataset, self.val_dataset):
            print(f"metis: {notice}", flush=True)
        self.data = PromptData(self.train_dataset)
        self.pool = Pool(self.data.prompts, self.settings["rewards"], self.settings["seed"])
        check_pool(self.pool, self.curriculum, self.config.data.train_batch_size)
        limits = {key: self.settings[key] for key in ("tokens", "processed", "seconds")}
        self.account = Account(Budget(self.total_training_steps, **limits))
        default = Path(self.config.trainer.default_local_dir) / "metis"
        self.journal = Journal(
            Path(self.settings["run"] or default),
            _described(self.config, self.settings),
            checkpoints.step_of(checkpoints.resume_folder(self.config.trainer)),
            self.data.expected,
        )
        notices = pool_notice(self.pool, self.curriculum, self.config.data.train_batch_size)
        notices += filter(None, [judge_cost(needs_of(self.curriculum))])
        for notice in () if self.journal.of_recipe else notices:  # else `metis train` showed them
            print(f"metis: {notice}", flush=True)
        composition.write_composition(self.journal.folder.path, self.pool.prompts)
        logger = self.config.trainer.logger  # verl opens it later in this process
        names = [logger] if isinstance(logger, str) else logger
        os.environ |= loggers.run_variables(names, self.journal.folder.path)

    def on_init_end(self) -> None:
        self.checkpoint_manager = WatchedSync.of(self)
        super().on_init_end()
        context = lengths.context(self.config, self.tokenizer.name_or_path)
        client = AddressedClient.of(self.llm_server_manager)
        longest_row = lengths.in_a_pass(self.config)
        servers = Servers(client, self.tokenizer, self.config, context, longest_row)
        self.update.folder = self.tokenizer.name_or_path
        self.liveness = self.replay_buffer.liveness = Liveness.of(self)
        longest = self.config.data.max_response_length
        decode = partial(self.tokenizer.decode, skip_special_tokens=True)
        submit = self._submit_batch_to_rollout
        rollouts = Rollouts(self.data, submit, self.liveness, longest, decode)
        self.replay_buffer.hear = self._hear_test
        self.engine = VerlEngine(
            servers,
            rollouts,
            self._value_worker(servers),
            States.of_actor(self.actor_rollout_wg, self.config, self.tokenizer.name_or_path),
            lambda prompts: [servers.encode_chat(self.data.chat(prompt)) for prompt in prompts],
            self.settings["seed"],
        )
        self.engine.load(*self.learned)
        actor = omega_conf_to_dataclass(self.config.actor_rollout_ref.actor)
        self.actor_rollout_wg.set_loss_fn(partial(metis_loss, config=actor))

    def _value_worker(self, servers: Servers) -> ValueWorker | None:
        """The critic, if enabled, is the curriculum's value model; verl's step does not use it."""
        if not need_critic(self.config):
            return None
        self.use_critic = False
        return ValueWorker(
            self.critic_wg,
            self.config,
            lambda prompt: servers.encode_chat(self.data.chat(prompt)),
            self.tokenizer.eos_token_id,
        )

    # A step

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """Plan, then train as verl does."""
        started = time.perf_counter()
        self.tested = False
        self.batch = self._plan(metrics, timing_raw)
        trained = self._train(self.batch, metrics, timing_raw)
        self.account.elapsed += time.perf_counter() - started
        self.account.step = self.global_steps
        self.journal.time(self.global_steps, timing_raw, self.account.elapsed, self.update.judged)
        self.journal.explain(self.global_steps, self.batch, self.heard)
        shown = self.trackers.show(self.logger, self.global_steps, self.batch)
        self.journal.say(self.global_steps, list(shown))
        self.heard = ()
        self.metrics = dict(metrics)
        self._schedule()
        return trained

    def _train(self, batch: Batch, metrics: dict[str, Any], timing_raw: Any) -> KVBatchMeta:
        """verl's own step on the batch; without rollouts there is no update."""
        servers = self.engine.servers
        parts = self.update.cut(batch, servers, self.data.ground_truth, metrics)
        if not parts:
            self.on_sample_end()
            return self._placeholder()
        spread, filler = (
            data_parallel_ranks(self.actor_rollout_wg, "actor"),
            self.tokenizer.eos_token_id,
        )
        self.replay_buffer.planned = self.update.write(parts, spread, filler, metrics)
        planned = dict(metrics)
        trained: KVBatchMeta = super().step(metrics, timing_raw)
        metrics.update(planned)
        return trained

    def on_step_end(self) -> None:
        started = time.perf_counter()
        super().on_step_end()
        self.account.elapsed += time.perf_counter() - started

    def _placeholder(self) -> KVBatchMeta:
        """A dummy row, for a step without an update; verl clears it."""
        key, tag = f"nothing{self.global_steps}", {"is_padding": True}
        return transfer_queue.kv_batch_put(keys=[key], partition_id=PARTITION, tags=[tag])

    def prepare_step(self) -> dict[str, Any]:
        """Nothing to prepare: the plan sampled and rolled out the prompts."""
        return {}

    def _plan(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> Batch:
        done = self.engine.version = self.global_steps - 1
        meter, seed = Meter(self.engine), self.settings["seed"]
        batch = plan_step(self.curriculum, self.pool, self.account, done, seed, meter)
        self.heard = meter.heard
        planned = {**step_metrics(self.account, batch, meter.counts), **batch.metrics}
        metrics.update({f"metis/{name}": value for name, value in planned.items()})
        for phase, name in {"judge": "judge", "rollout": "gen", "select": "select"}.items():
            if phase in meter.seconds:
                timing_raw[name] = timing_raw.get(name, 0.0) + meter.seconds[phase]
        cut_off = self.truncations.notices(meter.counts)
        flat = self.standstill.notices(self.global_steps, planned, self.journal.folder.path)
        failed = self.failures.notices(meter.heard)
        said = [*batch.notices, *failed, *cut_off, *flat, *self.rewards.notices(batch)]
        self.journal.say(self.global_steps, said)
        return batch

    def _balance_batch(self, batch: KVBatchMeta, *_: Any, **__: Any) -> KVBatchMeta:
        """Rows are already balanced."""
        return batch

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        batch = super()._compute_old_log_prob(batch, metrics=metrics)
        keep_rollout_logprobs(batch, PARTITION, self.engine.version)
        return batch

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """verl's update, with our mini-batches."""
        with self.update.joined(batch) as whole:
            whole.extra_info.update(self.update.instructions(len(whole)))
            output = rename_dict(self.actor_rollout_wg.update_actor(whole)["metrics"], "actor/")
        output["perf/mfu/actor"] = output.pop("actor/mfu")
        self.update.watch(np.ravel(output["actor/grad_norm"]), metrics)
        metrics.update(reduce_metrics(output))
        return batch

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: Any, timing_raw: Any, global_steps: int, epoch: int
    ) -> None:
        if self.update.count:
            super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)
            gpus = self._get_n_gpus_for_throughput()
            metrics.update(rollout_throughput(batch.tags, timing_raw["step"], gpus))
        else:
            metrics.update({"training/global_step": global_steps, "training/epoch": epoch})
            metrics.update({f"timing_s/{name}": value for name, value in timing_raw.items()})
        self.journal.note(global_steps, metrics)

    def _log_rollout_data(self, *arguments: Any) -> None:
        if self.update.count:
            super()._log_rollout_data(*arguments)


def _described(config: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings to record for a run that `metis train` did not start."""
    rollout, data = config.actor_rollout_ref.rollout, config.data
    actor = config.actor_rollout_ref.actor
    engine = {
        "name": "verl",
        "model": config.actor_rollout_ref.model.path,
        "generation": rollout.name,
        "max_tokens": data.max_response_length,
        "temperature": rollout.temperature,
        "top_p": rollout.top_p,
        "learning_rate": actor.optim.lr,
        "minibatch": actor.ppo_mini_batch_size,
    }
    rest = {key: value for key, value in settings.items() if key != "run"}
    return {"engine": engine, "batch": data.train_batch_size, "group": rollout.n, **rest}


class RewardCheck:
    """Gives a notice, once, if binary rewards are configured and others occur."""

    def __init__(self, kind: str) -> None:
        self.silent = kind != "binary"

    def notices(self, batch: Batch) -> list[str]:
        fractional = any(0 < reward < 1 for group in batch.groups for reward in group.rewards)
        if self.silent or not fractional:
            return []
        self.silent = True
        return [FRACTIONS]


def rollout_throughput(
    tags: Iterable[Mapping[str, Any]], seconds: float, gpus: int
) -> dict[str, float]:
    """Tokens, and tokens per second and GPU, of the rollout rows only.

    verl's `perf/total_num_tokens` and `perf/throughput` also count judgments and padding, so that a
    judge would look like higher throughput.
    """
    tokens = sum(tag["seq_len"] for tag in tags if tag["kind"] == "rollout")
    return {
        "perf/rollout_tokens": float(tokens),
        "perf/rollout_throughput": tokens / (seconds * gpus),
    }
