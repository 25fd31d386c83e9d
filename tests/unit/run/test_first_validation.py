"""The first validation outlives a kill, and is not taken for another one."""

from metis.run.first_validation import FILE, FirstValidation


def test_what_was_answered_is_known_again(tmp_path):
    first = FirstValidation(tmp_path, "a")
    first.keep([("x", 1.0), ("y", None)])
    again = FirstValidation(tmp_path, "a")
    assert again.rewards == {"x": 1.0, "y": None}
    again.keep([("z", 0.0)])
    assert FirstValidation(tmp_path, "a").rewards == {"x": 1.0, "y": None, "z": 0.0}
    again.end()
    assert list(tmp_path.iterdir()) == []


def test_another_validation_begins_anew(tmp_path):
    FirstValidation(tmp_path, "a").keep([("x", 1.0)])
    assert FirstValidation(tmp_path, "b").rewards == {}
    assert FirstValidation(tmp_path, "a").rewards == {}


def test_a_torn_line_is_left_out(tmp_path):
    FirstValidation(tmp_path, "a").keep([("x", 1.0), ("y", 0.5)])
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-9])
    again = FirstValidation(tmp_path, "a")
    assert again.rewards == {"x": 1.0}
    again.keep([("y", 0.25)])
    assert FirstValidation(tmp_path, "a").rewards == {"x": 1.0, "y": 0.25}
    path.write_bytes(b"{")
    assert FirstValidation(tmp_path, "a").rewards == {}
