"""A trainer for verl 0.9.1 that trains on what a curriculum's plan returns.

Registered with verl's V1 trainers as `metis`: import this module (VERL_USE_EXTERNAL_MODULES) and
set trainer.v1.trainer_mode=metis. verl's own step is kept: old log-probabilities, advantages,
the update of the actor, and the weights' way to the rollout servers. What a step trains on comes
from the plan, which runs while the servers are awake with the actor's current weights.
"""

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import transfer_queue
from omegaconf import OmegaConf, open_dict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import need_critic
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict

from metis import disk, sinks, state
from metis.account import Account, Budget
from metis.config import curriculum_of
from metis.core import Batch, Progress
from metis.curricula.demands import check_pool
from metis.curricula.judge import Judge
from metis.cutoffs import CutOffs
from metis.driver import drive
from metis.engines.verl import checks, episodes, lengths, log_probabilities, resuming, retention
from metis.engines.verl.buffer import PlannedBuffer
from metis.engines.verl.client import AddressedClient
from metis.engines.verl.costs import judge_cost
from metis.engines.verl.engine import VerlEngine, encoder
from metis.engines.verl.heldout import Heldout
from metis.engines.verl.journal import Journal, logged
from metis.engines.verl.loss import metis_loss
from metis.engines.verl.prompts import PromptData
from metis.engines.verl.pulse import Pulse
from metis.engines.verl.rollouts import PARTITION, Rollouts
from metis.engines.verl.rows import keep_own, ranks
from metis.engines.verl.servers import Servers
from metis.engines.verl.states import States
from metis.engines.verl.throughput import rollout_throughput
from metis.engines.verl.update import Update
from metis.engines.verl.values import ValueWorker
from metis.meter import Meter
from metis.pool import Pool
from metis.predictors import Predictor
from metis.run import composition
from metis.run.records import batch_metrics

log_probabilities.install()  # verl imports this module in each of its processes
episodes.install()

FRACTIONS = "some rewards lie between 0 and 1: set trainer.v1.metis.rewards=continuous"


@register_trainer("metis")
class MetisTrainer(PPOTrainerSync):  # type: ignore[misc]
    """verl's synchronous trainer, led by a curriculum."""

    total_training_steps: int

    def __init__(self, config: Any) -> None:
        checks.check(config)
        resuming.settle(config.trainer)
        self.settings: Any = OmegaConf.to_container(config.trainer.v1.metis, resolve=True)
        batch, group = config.data.train_batch_size, config.actor_rollout_ref.rollout.n
        self.curriculum = curriculum_of(self.settings["curriculum"], batch, group)
        if isinstance(judge := getattr(self.curriculum, "judge", None), Judge):
            checks.check_judge(config, judge)
        self.batch: Batch | None = None
        self.metrics: dict[str, Any] = {}
        """Of the last step: what is logged when it has been tested, if it has to be."""
        self.saved = 0
        self.learned: tuple[Path, Sequence[Predictor]] = (Path(), ())
        """Models that a checkpoint has beside the policy, and where."""
        self.update = Update(config)
        self.tested = self.told = False
        longest = config.data.max_response_length
        self.cutoffs = CutOffs(f"data.max_response_length = {longest}")
        self.save_every, self.test_every = config.trainer.save_freq, config.trainer.test_freq
        super().__init__(config)

    # What verl builds, with a curriculum in it

    def _build_replay_buffer(self) -> PlannedBuffer:
        self.trainer_mode = "sync"  # what the base class knows this kind of trainer as
        with open_dict(self.config):
            self.config.trainer.v1.sampler.custom_sampler = {
                "path": f"pkg://{PlannedBuffer.__module__}",
                "name": PlannedBuffer.__name__,
            }
        buffer: PlannedBuffer = super()._build_replay_buffer()
        return buffer

    def _init_dataloader(self) -> None:
        super()._init_dataloader()
        self.data = PromptData(self.train_dataset)
        self.pool = Pool(self.data.prompts, self.settings["rewards"], self.settings["seed"])
        check_pool(self.pool, self.curriculum, self.config.data.train_batch_size)
        checks.check_first_request(self.curriculum, self.pool, self.config)
        limits = (self.settings["tokens"], self.settings["seconds"])
        self.account = Account(Budget(self.total_training_steps, *limits))
        default = Path(self.config.trainer.default_local_dir) / "metis"
        self.journal = Journal(
            Path(self.settings["run"] or default),
            resuming.described(self.config, self.settings),
            resuming.step_of(resuming.checkpoint(self.config.trainer)),
        )
        cost = judge_cost(self.curriculum, self.settings["rewards"])
        if cost and not self.journal.of_recipe:  # `metis train` has said it
            print(f"metis: {cost}", flush=True)
        composition.write(self.journal.folder.path, self.pool.prompts)
        logger = self.config.trainer.logger  # which verl opens in this process, when all is built
        names = [logger] if isinstance(logger, str) else logger
        os.environ |= sinks.variables(names, self.journal.folder.path)

    def on_init_end(self) -> None:
        super().on_init_end()
        context = lengths.context(self.config, self.tokenizer.name_or_path)
        client = AddressedClient.of(self.llm_server_manager)
        longest_row = lengths.in_a_pass(self.config)
        servers = Servers(client, self.tokenizer, self.config, context, longest_row)
        self.update.folder = self.tokenizer.name_or_path
        self.pulse = self.replay_buffer.pulse = Pulse.of(self)
        longest = self.config.data.max_response_length
        rollouts = Rollouts(self.data, self._submit_batch_to_rollout, self.pulse, longest)
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
        """The critic, if there is one, is the curriculum's: it has no say in verl's own step."""
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
        written, answers = self.engine.servers.written, self.settings["answers"]
        self.journal.explain(self.global_steps, self.batch, written, answers)
        self.metrics = dict(metrics)
        self._schedule()
        return trained

    def _train(self, batch: Batch, metrics: dict[str, Any], timing_raw: Any) -> KVBatchMeta:
        """verl's own step, on the batch; one without rollouts is no update."""
        encode = encoder(self.engine.servers)
        parts = self.update.cut(batch, encode, self.data.ground_truth, metrics)
        if not parts:
            self.on_sample_end()
            return self._placeholder()
        spread, filler = ranks(self.actor_rollout_wg, "actor"), self.tokenizer.eos_token_id
        self.replay_buffer.planned = self.update.write(parts, spread, filler, metrics)
        planned = dict(metrics)
        trained: KVBatchMeta = super().step(metrics, timing_raw)
        metrics.update(planned)
        return trained

    def _schedule(self) -> None:
        """True of a step that is saved and tested; verl looks it up when the step is done.

        The step that ends the budget is the last one, and like verl's last one saved and tested.
        """
        if self.account.fraction >= 1:
            self.total_training_steps = self.global_steps
        self.config.trainer.test_freq = 1 if self._due(self.test_every) else -1
        self.config.trainer.save_freq = 1 if self._due(self.save_every) else -1

    def _due(self, every: int) -> bool:
        last = self.global_steps >= self.total_training_steps
        return every > 0 and (last or self.global_steps % every == 0)

    def on_step_end(self) -> None:
        started = time.perf_counter()
        super().on_step_end()
        self.account.elapsed += time.perf_counter() - started

    def _placeholder(self) -> KVBatchMeta:
        """The remains of a step without an update in the queue, for verl to clear."""
        key, tag = f"nothing{self.global_steps}", {"is_padding": True}
        return transfer_queue.kv_batch_put(keys=[key], partition_id=PARTITION, tags=[tag])

    def prepare_step(self) -> dict[str, Any]:
        """Nothing is left to prepare: the plan has drawn and played the prompts."""
        return {}

    def _plan(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> Batch:
        done = self.engine.policy = self.global_steps - 1
        meter = Meter(self.engine)
        progress = Progress(done, self.account.fraction, done, self.settings["seed"])
        batch = drive(self.curriculum.step(self.pool, progress), meter)
        trained = sum(len(group.rewards) for group in batch.groups)
        counts = Counter(meter.counts, **{"rollout/trained": trained})
        found = {**self.account.count(counts), **batch_metrics(batch), **batch.metrics}
        metrics.update({f"metis/{name}": value for name, value in found.items()})
        for phase, name in {"judge": "judge", "rollout": "gen", "select": "select"}.items():
            if phase in meter.seconds:
                timing_raw[name] = timing_raw.get(name, 0.0) + meter.seconds[phase]
        cut_off = self.cutoffs.notices(counts)
        for notice in (*batch.notices, *cut_off, *self._about_rewards(batch)):
            print(f"metis: step {self.global_steps}: {notice}")
        return batch

    def _about_rewards(self, batch: Batch) -> list[str]:
        """A word, said once, about rewards that are not what the settings say."""
        fractional = any(0 < reward < 1 for group in batch.groups for reward in group.rewards)
        if self.told or self.pool.rewards != "binary" or not fractional:
            return []
        self.told = True
        return [FRACTIONS]

    def _balance_batch(self, batch: KVBatchMeta, *_: Any, **__: Any) -> KVBatchMeta:
        """The rows are laid out already."""
        return batch

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        batch = super()._compute_old_log_prob(batch, metrics=metrics)
        keep_own(batch, PARTITION, self.engine.policy)
        return batch

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """verl's update, cut into the mini-batches of the plan."""
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

    # Tests

    def _validate(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        found: dict[str, Any] = super()._validate(*arguments, **options)
        if self.tested:
            return found
        if self.batch is None:  # before the first step of this process
            self.journal.note(self.global_steps, self.metrics | found)
        if self.global_steps > 0:
            self._keep_tested()
        return found

    def _keep_tested(self) -> None:
        """The checkpoint of the step has the test in it; the best one is saved, if it was not yet.

        Like verl, it saves while the servers sleep, and hands them the weights again.
        """
        best = self.settings["best"] and self.account.improved and self.save_every > 0
        if self.saved == self.global_steps:
            self._save_state()
        elif best:
            self.checkpoint_manager.sleep_replicas()
            self._save_checkpoint()
            self.checkpoint_manager.update_weights(self.global_steps)
        if best:
            disk.keep_copy(self.folder, retention.BEST)

    def _val_metrics_update(
        self,
        data_sources: Sequence[str],
        sample_uids: Sequence[str],
        reward_extra_infos_dict: Mapping[str, Sequence[Any]],
        sample_turns: Sequence[Any],
        expected_acc_counts: Mapping[tuple[str, str], int] | None = None,
    ) -> dict[str, Any]:
        answers = (data_sources, sample_uids, reward_extra_infos_dict, sample_turns)
        found: dict[str, Any] = super()._val_metrics_update(*answers, expected_acc_counts)
        keys = list(zip(data_sources, sample_uids, strict=True))
        heldout = Heldout(keys, reward_extra_infos_dict, expected_acc_counts)
        if heldout.failed:
            self.pulse.look()
        tested = self.account.test(heldout.by_source()) | heldout.failures()
        if not self.tested:
            self.journal.test(self.global_steps, heldout.by_prompt())
        return found | {f"metis/{name}": value for name, value in tested.items()}

    # Checkpoints

    @property
    def folder(self) -> Path:
        """The folder of this step's checkpoint, if it has one."""
        return Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"

    def _save_state(self) -> None:
        state.save(
            self.folder / resuming.STATE,
            {
                "curriculum": self.curriculum.state_dict(),
                "pool": self.pool.state_dict(),
                "metrics": logged(self.metrics),
                "learners": list(self.engine.learners),
                "bound": self.update.bound.state_dict(),
                **self.account.state_dict(),
            },
        )

    def _save_checkpoint(self) -> None:
        """The curriculum's state comes first: verl marks a checkpoint as the latest at its end."""
        retention.make_room(self.folder, self.config.trainer.max_actor_ckpt_to_keep)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.engine.save(self.folder)
        self._save_state()
        self.use_critic = need_critic(self.config)
        super()._save_checkpoint()
        self.use_critic = False
        self.saved = self.global_steps

    def _load_checkpoint(self) -> None:
        """Go on from a checkpoint, of which the logs may lack the last step."""
        super()._load_checkpoint()
        folder = resuming.checkpoint(self.config.trainer)
        looked_at = folder is not None and self.config.trainer.get("val_only", False)
        self.tested = looked_at or self.journal.resume(self.global_steps)
        if folder is None:
            return
        saved = resuming.load(folder)
        self.curriculum.load_state_dict(saved["curriculum"])
        self.pool.load_state_dict(saved["pool"])
        self.account.step = self.global_steps
        self.account.load_state_dict(saved)
        self.metrics = saved["metrics"]
        self.learned = (folder, saved.get("learners", ()))
        self.update.bound.load_state_dict(saved.get("bound", {"mean": None}))
        if folder == self.folder.absolute():
            self.saved = self.global_steps
            if not looked_at:
                retention.go_on_from(folder)
        if self.account.fraction >= 1:
            self.total_training_steps = self.global_steps
        if not looked_at:
            self._catch_up()

    def _catch_up(self) -> None:
        """A step that is in the logs was tested, if it had to be; one that is not is tested now."""
        due = not self.tested and self._due(self.test_every)
        self.config.trainer.val_before_train = due
        if not self.tested and not due:
            self.journal.note(self.global_steps, self.metrics)
