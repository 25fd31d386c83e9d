"""Validation, checkpoints and resuming of the trainer."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from verl.trainer.ppo.utils import need_critic
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from metis import files
from metis.core import Batch, Curriculum, state
from metis.core.pool import Pool
from metis.core.predictors import Predictor
from metis.engines.verl import checkpoints
from metis.engines.verl.engine import VerlEngine
from metis.engines.verl.heldout import Answers, Heldout
from metis.engines.verl.servers.liveness import Liveness
from metis.engines.verl.trainer.journal import Journal, logged
from metis.engines.verl.workers.resharding import resharded
from metis.engines.verl.workers.update import Update
from metis.run.budget import Account
from metis.run.recording import shortened


class Checkpointing(PPOTrainerSync):  # type: ignore[misc]
    """verl's synchronous trainer, whose checkpoints include the curriculum."""

    total_training_steps: int
    actor_rollout_wg: Any
    critic_wg: Any
    curriculum: Curriculum
    pool: Pool
    account: Account
    engine: VerlEngine
    update: Update
    checkpoint_manager: Any
    """Syncs the actor's weights to the rollout servers."""
    journal: Journal
    metrics: dict[str, Any]
    """Metrics of the last step, logged after its validation."""
    learned: tuple[Path, Sequence[Predictor]]
    """The folder and the predictors of the checkpoint to resume from."""
    saved: int
    tested: bool
    save_every: int
    test_every: int

    def _schedule(self) -> None:
        """Set verl's save_freq and test_freq for this step, read at its end.

        The step that uses up the budget is the last one, and is saved and validated.
        """
        if self.account.fraction >= 1:
            self.total_training_steps = self.global_steps
        self.config.trainer.test_freq = 1 if self._due(self.test_every) else -1
        self.config.trainer.save_freq = 1 if self._due(self.save_every) else -1

    def _due(self, every: int) -> bool:
        last = self.global_steps >= self.total_training_steps
        return every > 0 and (last or self.global_steps % every == 0)

    @property
    def folder(self) -> Path:
        """The folder of this step's checkpoint."""
        return Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"

    def _save_state(self) -> None:
        state.save_state(
            self.folder / checkpoints.STATE,
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
        """Save the curriculum's state first: verl marks the checkpoint as complete at its end."""
        checkpoints.make_room(self.folder, self.config.trainer.max_actor_ckpt_to_keep)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.engine.save(self.folder)
        self.journal.thin(self.global_steps)
        self._save_state()
        self.use_critic = need_critic(self.config)
        super()._save_checkpoint()
        self.use_critic = False
        self.saved = self.global_steps

    def _load_checkpoint(self) -> None:
        """Load the checkpoint to resume from; its step may be missing in the logs."""
        folder = checkpoints.resume_folder(self.config.trainer)
        with ExitStack() as parts:
            if folder is not None:
                parts.enter_context(resharded(folder / "actor", self.actor_rollout_wg))
            if folder is not None and self.use_critic:
                parts.enter_context(resharded(folder / "critic", self.critic_wg))
            super()._load_checkpoint()
        looked_at = self._looked_at(folder)
        if not looked_at:
            self._mark(folder)
        self.tested = looked_at or self.journal.resume(self.global_steps)
        if folder is not None:
            self._load_state(folder)
        if looked_at:
            return
        if told := checkpoints.set_best_aside(self.folder.absolute().parent, self.account):
            print(f"metis: {told}", flush=True)
        if folder is not None:
            self._catch_up()

    def _looked_at(self, folder: Path | None) -> bool:
        """True if this start only validates an existing run (val_only)."""
        own = Path(self.config.trainer.default_local_dir)
        there = folder is not None or checkpoints.last_complete(own) is not None
        return there and bool(self.config.trainer.get("val_only", False))

    def _load_state(self, folder: Path) -> None:
        saved = checkpoints.load_curriculum_state(folder)
        self.curriculum.load_state_dict(saved["curriculum"])
        self.pool.load_state_dict(saved["pool"])
        self.account.step = self.global_steps
        self.account.load_state_dict(saved)
        self.metrics = saved["metrics"]
        self.learned = (folder, saved.get("learners", ()))
        self.update.bound.load_state_dict(saved.get("bound", {"mean": None}))
        if folder == self.folder.absolute():
            self.saved = self.global_steps
        if self.account.fraction >= 1:
            self.total_training_steps = self.global_steps

    def _mark(self, folder: Path | None) -> None:
        """Set the marker to this attempt's checkpoint, or clear it."""
        own = self.folder.absolute()
        if folder == own:
            checkpoints.mark_last(own)
        else:
            checkpoints.clear_marker(own.parent)

    def _catch_up(self) -> None:
        """Validate the resumed step now, if the logs lack its validation."""
        due = not self.tested and self._due(self.test_every)
        self.config.trainer.val_before_train = due
        if not self.tested and not due:
            self.journal.note(self.global_steps, self.metrics)


class Validating(Checkpointing):
    """The trainer with validation, which keeps the best checkpoint."""

    settings: Any
    batch: Batch | None
    liveness: Liveness

    names: dict[str, str]
    """The ids of held-out prompts by their uids in the validation at hand."""

    def _validate(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        self.names = {}
        metrics: dict[str, Any] = super()._validate(*arguments, **options)
        if self.tested:
            return metrics
        if self.batch is None:  # before the first step of this process
            self.journal.note(self.global_steps, self.metrics | metrics)
        if self.global_steps > 0:
            self._keep_tested()
        return metrics

    def _hear_test(self, keys: Sequence[str]) -> None:
        """Write the transcripts of a part of a validation."""
        if self.tested:
            return
        for uid, prompt, reference, said in self.engine.rollouts.tested(keys):
            self.names[uid] = prompt.id
            known = {"reference": shortened(reference)} if reference else {}
            self.journal.recorder.add("eval", self.global_steps, prompt, said, **known)

    def _keep_tested(self) -> None:
        """Add the validation to the step's checkpoint; save one if it is the best so far.

        As in verl, the servers sleep while saving, and are synced afterwards.
        """
        best = self.settings["best"] and self.account.improved and self.save_every > 0
        if self.saved == self.global_steps:
            self._save_state()
        elif best:
            self.checkpoint_manager.sleep_replicas()
            self._save_checkpoint()
            self.checkpoint_manager.update_weights(self.global_steps)
        if best:
            files.link_copy(self.folder, checkpoints.BEST)

    def _val_metrics_update(
        self,
        data_sources: Sequence[str],
        sample_uids: Sequence[str],
        reward_extra_infos_dict: Mapping[str, Sequence[Any]],
        sample_turns: Sequence[Any],
        expected_acc_counts: Mapping[tuple[str, str], int] | None = None,
    ) -> dict[str, Any]:
        answers = Answers(data_sources, sample_uids, reward_extra_infos_dict, sample_turns).valid()
        metrics: dict[str, Any] = super()._val_metrics_update(*answers, expected_acc_counts)
        heldout = Heldout(answers, expected_acc_counts, self.names)
        if heldout.failed:
            self.liveness.check_now()
        tested = self.account.test(heldout.by_source()) | heldout.failures()
        if not self.tested:
            self.journal.test(self.global_steps, heldout.by_prompt())
        return metrics | {f"metis/{name}": value for name, value in tested.items()}
