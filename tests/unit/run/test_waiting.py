"""A heartbeat beats while it is entered, and not after."""

import threading

from metis.run.waiting import Heartbeat


def test_a_heartbeat_ends_with_what_it_watches():
    beats, thrice = [], threading.Event()

    def beat():
        beats.append(1)
        if len(beats) == 3:
            thrice.set()

    with Heartbeat(beat, period=0.001) as heart:
        assert thrice.wait(10)
    assert not heart.thread.is_alive()
