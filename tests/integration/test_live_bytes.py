"""Peak memory as benchmarks/update.py counts it where there is no GPU."""

import pytest
import torch


@pytest.fixture(scope="module")
def script(benchmark_script):
    return benchmark_script("update")


def test_what_is_freed_no_longer_counts_and_views_count_once(script):
    with script.LiveBytes() as live:
        kept = torch.zeros(1000)
        kept.view(10, 100)
        torch.ones(500)
        torch.ones(200)
    assert (live.now, live.peak) == (4000, 6000)


def test_tensors_that_are_kept_for_a_backward_pass_count(script):
    weight = torch.ones(1000, requires_grad=True)
    with script.LiveBytes() as live:
        loss = (weight * 2).exp().sum()
        kept = live.now
        loss.backward()
        del loss
    assert kept == 4000 + 4
    assert live.now == weight.grad.nbytes


def test_the_peak_is_that_of_the_work(script):
    gib = script.peak_memory(torch.device("cpu"), lambda: torch.zeros(1 << 18).sum())
    assert gib == pytest.approx((4 << 18) / (1 << 30), rel=1e-4)
