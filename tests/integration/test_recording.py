"""Work that comes up again is recorded and replayed, with new values in the same places."""

import pytest
import torch

import skips
from metis.curricula.judges.scale import VARIANCE
from metis.engines.local.model import cuda_graphs
from metis.engines.local.model.cuda_graphs import GraphRecorder, Recording
from metis.engines.local.model.forward import no_grad_logprobs
from metis.engines.local.model.policy import Policy
from metis.engines.local.settings import LocalSettings
from metis.engines.tokens.choices import ChoiceTree
from metis.engines.tokens.packing import PrefixGroup


class Graph:
    """Stands for a CUDA graph: replaying it runs the function again on its own tensors."""

    def __init__(self, function, inputs, output):
        self.function, self.inputs, self.output = function, inputs, output

    def replay(self):
        self.output.copy_(self.function(*self.inputs))


@pytest.fixture
def recorder(monkeypatch):
    def record(self, function, inputs):
        own = [tensor.clone() for tensor in inputs]
        output = function(*own)
        return Recording(Graph(function, own, output), own, output)

    monkeypatch.setattr(GraphRecorder, "_record", record)
    made = GraphRecorder(torch.device("cpu"))
    made.works = True
    return made


def test_the_second_time_is_recorded_and_later_ones_replayed(recorder):
    results = [recorder.run("double", lambda x: 2 * x, [torch.tensor([i])]) for i in range(4)]
    assert results[0].item() == 0
    assert results[1] is results[2] is results[3] is recorder.recordings["double"].output
    assert results[3].item() == 6


def test_kinds_do_not_mix_and_the_least_needed_makes_room(recorder):
    recorder.kept = 2

    def run(key, factor, value):
        return recorder.run(key, lambda x: factor * x, [torch.tensor([value])]).item()

    for value in (1, 2, 3):
        assert (run("one", 1, value), run("ten", 10, value)) == (value, 10 * value)
    assert run("one", 1, 4) == 4
    assert [run("new", 7, value) for value in (1, 2)] == [7, 14]
    assert list(recorder.recordings) == ["one", "new"]
    recorder.forget()
    assert run("one", 1, 5) == 5
    assert list(recorder.recordings) == ["one"]


def test_what_comes_up_once_takes_no_room(recorder, monkeypatch):
    monkeypatch.setattr(cuda_graphs, "SEEN", 3)
    for key in range(10):
        recorder.run(key, lambda x: x, [torch.tensor([key])])
    assert not recorder.recordings
    assert len(recorder.seen) <= 3


def test_only_work_of_a_gpu_is_recorded(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    recorder = GraphRecorder(torch.device("cpu"))
    calls = [recorder.run("same", lambda x: x + 1, [torch.tensor([i])]) for i in range(4)]
    assert [call.item() for call in calls] == [1, 2, 3, 4]


@pytest.mark.skipif(not torch.cuda.is_available(), reason=skips.GPU)
def test_a_graph_gives_what_the_function_gives():
    recorder = GraphRecorder(torch.device("cuda"))
    weight = torch.randn(4, 4, device="cuda")
    with torch.no_grad():
        for i in range(4):
            given = torch.full((2, 4), float(i), device="cuda")
            found = recorder.run("product", lambda x: x @ weight, [given])
            assert torch.equal(found, given @ weight)
            weight.add_(1)
    assert recorder.works
    assert "product" in recorder.recordings


@pytest.mark.skipif(not torch.cuda.is_available(), reason=skips.GPU)
def test_what_waits_for_the_gpu_runs_as_it_is():
    recorder = GraphRecorder(torch.device("cuda"))
    stream = torch.cuda.current_stream()
    for i in range(3):
        given = torch.tensor([float(i)], device="cuda")
        assert recorder.run("waits", lambda x: x * x.item(), [given]).item() == i * i
    assert not recorder.works
    assert torch.cuda.current_stream() == stream


@pytest.mark.skipif(not torch.cuda.is_available(), reason=skips.GPU)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_scoring_pass_is_recorded(tiny, compiled):
    policy = Policy(tiny, LocalSettings(model=str(tiny), device="cuda", compile=compiled))
    tree = ChoiceTree.of([policy.encode_reply(choice) for choice in VARIANCE.choices])
    rows = [tree.row(list(range(5, 5 + count))) for count in (3, 9)]
    found = [
        no_grad_logprobs(policy, PrefixGroup(list(range(8)), rows, policy.layout), 1000)
        for _ in range(3)
    ]
    assert policy.recorder.works and len(policy.recorder.recordings) == 1
    assert found[0] == pytest.approx(found[1], abs=0.02) and (found[1] == found[2]).all()
