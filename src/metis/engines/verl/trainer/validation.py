"""Validation by the trainer: held-out rewards by prompt, and the best checkpoint kept."""

from collections.abc import Mapping, Sequence
from typing import Any

from metis import files
from metis.core import Batch
from metis.engines.verl import checkpoints
from metis.engines.verl.servers.liveness import Liveness
from metis.engines.verl.trainer.checkpointing import Checkpointing
from metis.engines.verl.validation import Heldout


class Validating(Checkpointing):
    """The trainer between its steps: validated, and saved where that was the best so far."""

    settings: Any
    batch: Batch | None
    liveness: Liveness

    def _validate(self, *arguments: Any, **options: Any) -> dict[str, Any]:
        metrics: dict[str, Any] = super()._validate(*arguments, **options)
        if self.tested:
            return metrics
        if self.batch is None:  # before the first step of this process
            self.journal.note(self.global_steps, self.metrics | metrics)
        if self.global_steps > 0:
            self._keep_tested()
        return metrics

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
            files.keep_copy(self.folder, checkpoints.BEST)

    def _val_metrics_update(
        self,
        data_sources: Sequence[str],
        sample_uids: Sequence[str],
        reward_extra_infos_dict: Mapping[str, Sequence[Any]],
        sample_turns: Sequence[Any],
        expected_acc_counts: Mapping[tuple[str, str], int] | None = None,
    ) -> dict[str, Any]:
        answers = (data_sources, sample_uids, reward_extra_infos_dict, sample_turns)
        metrics: dict[str, Any] = super()._val_metrics_update(*answers, expected_acc_counts)
        keys = list(zip(data_sources, sample_uids, strict=True))
        heldout = Heldout(keys, reward_extra_infos_dict, expected_acc_counts)
        if heldout.failed:
            self.liveness.check_now()
        tested = self.account.test(heldout.by_source()) | heldout.failures()
        if not self.tested:
            self.journal.test(self.global_steps, heldout.by_prompt())
        return metrics | {f"metis/{name}": value for name, value in tested.items()}
