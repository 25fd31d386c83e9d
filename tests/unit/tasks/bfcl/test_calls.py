"""Reading calls: names and literals come through, everything else is refused and nothing runs."""

import keyword

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metis.tasks.bfcl.calls import ApiCall, RefusedCall, Unreadable, parse, read

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name.isidentifier() and not keyword.iskeyword(name)
)

HOSTILE = [
    "__import__('os').system('touch {mark}')",
    "ls(__import__('os').system('touch {mark}'))",
    "ls(a=open('{mark}', 'w'))",
    "ls.__class__.__mro__[1].__subclasses__()",
    "ls.__self__._load_scenario(dict())",
    "(lambda: open('{mark}', 'w'))()",
    "ls(a=[x for x in range(10**10)])",
    "ls(a=[0] * 10**10)",
    "ls(a=9**9**9)",
    "ls(a='x' * 10**10)",
    "ls(**dict(a=True))",
    "ls(*[True])",
    "ls(a=ls())",
    "ls(a=(b := 1))",
    "ls(a=f'{{open}}')",
    "ls(a=True, a=False)",
    "[ls][0]()",
    "ls() for _ in range(10**10)",
    "ls() if True else cd()",
    "ls(a=-(-'x'))",
]


@settings(max_examples=50)
@given(
    st.lists(st.tuples(NAMES, st.dictionaries(NAMES, VALUES, max_size=3)), min_size=1, max_size=5)
)
def test_a_list_of_calls_is_read_as_it_was_written(written):
    text = ", ".join(
        f"{name}({', '.join(f'{key}={value!r}' for key, value in named.items())})"
        for name, named in written
    )
    assert read(f"[{text}]") == [ApiCall(name, (), tuple(named.items())) for name, named in written]


@given(st.lists(st.sampled_from(["```", "```python\n", "`", "</think>", "<think>", "a", "\n"])))
@pytest.mark.parametrize(
    "around", ["{}", "```\n{}\n```", "```python\n{}```", "<think>ls()</think>\n{}"]
)
def test_an_argument_may_contain_fences_and_ends_of_thinking(around, parts):
    content = "".join(parts)
    call = f"post_tweet(content={content!r})"
    assert read(around.format(f"[{call}]")) == [ApiCall("post_tweet", (), (("content", content),))]
    assert read(around.format(call)) == [ApiCall("post_tweet", (), (("content", content),))]


@given(st.text() | st.text("[](){}*=.,'abls019 \\n#:`").map("[ls({})".format))
def test_any_text_is_calls_or_words_or_unreadable(text):
    try:
        assert all(isinstance(call, ApiCall | RefusedCall) for call in read(text))
    except Unreadable as error:
        assert str(error)


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        ("[cd(folder='a'), ls()]", ["cd", "ls"]),
        ("ls(a=True)", ["ls"]),
        ("```python\n[ls()]\n```", ["ls"]),
        ("Let me look:\n```\nls()\n```", ["ls"]),
        ("<think>ls() or cd()?</think>\n[pwd()]", ["pwd"]),
        ("`ls()`", ["ls"]),
        ("There is nothing to call.", []),
        ("[1] The report is done.", []),
        ("I moved it (see above).", []),
        ("Done (all of it).", []),
        ("[Done (all of it).", None),
        ("cd(folder='a'", None),
        ("cd(folder='a')\nls()", None),
        ("```python\ncd(folder='a')\nls()\n```", None),
        ("", []),
        ("[]", []),
        ("['a', 'b']", []),
        ("42", []),
    ],
)
def test_calls_are_told_from_words(reply, names):
    """None stands for calls that cannot be read, of which the policy is told."""
    if names is None:
        with pytest.raises(Unreadable, match="not a list of calls"):
            read(reply)
    else:
        assert [call.name for call in read(reply)] == names


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_calls_are_refused_with_a_reason_and_nothing_runs(hostile, tmp_path):
    mark = tmp_path / "mark"
    text = hostile.replace("{mark}", str(mark))
    try:
        found = read(f"[{text}]")
    except Unreadable as error:
        assert str(error)
    else:
        assert found and all(isinstance(call, RefusedCall) and call.reason for call in found)
        assert max(len(call.reason) for call in found) < 300
    assert not mark.exists()


@pytest.mark.parametrize(
    "text",
    [
        f"[echo(content='{'x' * 1_000_000}')]",
        "[" + "ls()," * 10_000 + "]",
        "[f(" + "(" * 5_000 + ")" * 5_000 + ")]",
        f"[f(x={'9' * 10_000})]",
        "[f(x=" + "-" * 20_000 + "1)]",
        "[ls(), cd(]",
        f"[0x{'f' * 4_000}, f(y)]",
        f"(0x{'f' * 4_000})()",
        f"[f(x=0x{'f' * 4_000} + y)]",
    ],
    ids=[
        *("a megabyte", "ten thousand", "brackets", "digits", "signs", "syntax"),
        *("a long integer", "a long integer called", "a long integer in an expression"),
    ],
)
def test_what_is_too_much_or_no_python_is_named(text):
    try:
        found = read(text)
    except Unreadable as error:
        assert 0 < len(str(error)) < 200
    else:
        assert all(isinstance(call, RefusedCall) for call in found)


@pytest.mark.parametrize(
    "text", ["f(", "f(\0)", "f(" + "-" * 9_000 + "1)", "f(" + "(" * 9_000 + ")" * 9_000 + ")"]
)
def test_a_ground_truth_that_is_no_call_is_refused(text):
    assert parse(text).reason.startswith("not a call (")
