"""A survey that is piped says how far it is: after its first part, and after a long silence."""

import io

from rich.console import Console

from metis.survey.collect import SurveyView


def test_lines_come_with_the_first_part_and_now_and_then():
    now, file = [0.0], io.StringIO()
    view = SurveyView(Console(file=file), 100, clock=lambda: now[0])
    view.resume(20)
    for now[0] in range(0, 70, 10):
        view.beat()
    view.play(4)
    now[0] = 80.0
    view.save(40)
    view.play(10)
    for now[0] in range(80, 130, 10):
        view.beat()
    view.save(60)
    assert file.getvalue().splitlines() == [
        "20 of 100 rollouts",
        "20 of 100 rollouts",
        "40 of 100 rollouts · about 240 s left",
        "50 of 100 rollouts · about 183 s left",
    ]
