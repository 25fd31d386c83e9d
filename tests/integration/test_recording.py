"""Work that comes up again is recorded and replayed, with new values in the same places."""

import pytest
import torch

from metis.engines.local import recording
from metis.engines.local.recording import Recorder, Recording


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

    monkeypatch.setattr(Recorder, "_record", record)
    made = Recorder()
    made.works = True
    return made


def test_the_second_time_is_recorded_and_later_ones_replayed(recorder):
    results = [recorder.run("double", lambda x: 2 * x, [torch.tensor([i])]) for i in range(4)]
    assert results[0].item() == 0
    assert results[1] is results[2] is results[3] is recorder.recordings["double"].output
    assert results[3].item() == 6


def test_kinds_do_not_mix_and_the_oldest_makes_room(recorder, monkeypatch):
    monkeypatch.setattr(recording, "KEPT", 2)
    for value in (1, 2):
        for kind, factor in (("one", 1), ("ten", 10)):
            given = [torch.tensor([value])]
            assert recorder.run(kind, lambda x, f=factor: f * x, given).item() == factor * value
    recorder.run("one", lambda x: x, [torch.tensor([3])])
    recorder.run("third", lambda x: x, [torch.tensor([3])])
    assert list(recorder.recordings) == ["one", "third"]


def test_without_a_gpu_nothing_is_recorded():
    recorder = Recorder()
    recorder.works = False
    calls = [recorder.run("kind", lambda x: x + 1, [torch.tensor([i])]) for i in range(3)]
    assert [call.item() for call in calls] == [1, 2, 3]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_graph_gives_what_the_function_gives():
    recorder = Recorder()
    weight = torch.randn(4, 4, device="cuda")
    with torch.no_grad():
        for i in range(4):
            given = torch.full((2, 4), float(i), device="cuda")
            found = recorder.run("product", lambda x: x @ weight, [given])
            assert torch.equal(found, given @ weight)
            weight.add_(1)
    assert recorder.works
    assert recorder.recordings["product"] is not None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_what_cannot_be_recorded_runs_as_it_is():
    recorder = Recorder()
    for i in range(3):
        given = torch.tensor([float(i)], device="cuda")
        assert recorder.run("waits", lambda x: x * x.item(), [given]).item() == i * i
    assert not recorder.works
