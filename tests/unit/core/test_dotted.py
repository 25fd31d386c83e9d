"""Nested settings as dotted keys and values."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from metis.core.dotted import leaves

NAMES = st.text("abc", min_size=1, max_size=2)
DOCUMENTS = st.recursive(
    st.integers(), lambda part: st.dictionaries(NAMES, part, min_size=1, max_size=3)
)


@dataclass
class Judge:
    mode: str = "direct"


@dataclass
class Method:
    judge: Judge = field(default_factory=Judge)
    batch: int = 4
    seen: int = field(init=False, default=0)


@given(st.dictionaries(NAMES, DOCUMENTS, max_size=3))
def test_every_value_stands_under_its_path(document):
    for key, value in leaves(document):
        part = document
        for name in key.split("."):
            part = part[name]
        assert part == value
        assert not isinstance(value, dict)


def test_a_dataclass_has_its_knobs_and_not_its_state():
    assert dict(leaves(Method(), "curriculum.")) == {
        "curriculum.judge.mode": "direct",
        "curriculum.batch": 4,
    }


def test_an_empty_section_is_a_value():
    assert dict(leaves({"task": {"config": {}}, "steps": 3})) == {"task.config": {}, "steps": 3}
