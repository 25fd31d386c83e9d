"""How many rollouts are asked for at once: few on a CPU, what fits a GPU, and more with vLLM."""

from metis.engines.local.settings import SCHEDULED, SLOW, LocalSettings


def test_a_round_is_what_generates_at_once():
    assert LocalSettings(rows=512).round("cuda") == 512
    assert LocalSettings(rows=512).round("cpu") == SLOW
    assert LocalSettings(rows=SLOW // 2).round("cpu") == SLOW // 2


def test_vllm_schedules_rows_itself():
    assert LocalSettings(generation="vllm", rows=4).round("cuda") == SCHEDULED
    assert LocalSettings(generation="vllm", rows=2 * SCHEDULED).round("cuda") == 2 * SCHEDULED
