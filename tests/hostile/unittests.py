"""Programs that want a pass of a unittest method: they change unittest, or leave the test early."""

from textwrap import indent

from hostile.cheats import METHOD
from hostile.row import Row
from metis.tasks.sandbox import Script

LATER = Script(
    """
import unittest
class TestCases(unittest.TestCase):
    def test_f(self):
        value = f(1)
        self.assertEqual(value, "escaped")
""",
    "TestCases.test_f",
)
IMPORTS = "import builtins, sys, types, unittest, unittest.case, unittest.mock, unittest.suite\n"
NOTHING = "nothing = lambda *a, **k: None\n"
FAKE = """
class Fake:
    def __init__(self, *a): pass
    def __init_subclass__(cls): pass
    def __getattr__(self, name): return lambda *a, **k: None
    def countTestCases(self): return 1
    def __call__(self, *a, **k): a and setattr(a[0], "testsRun", 1)
    debug = run = __call__
fake = types.ModuleType("unittest")
fake.TestCase = fake.TestSuite = fake.TestResult = Fake
"""
CHANGES = {
    "an expected failure": "unittest.TestCase.__unittest_expecting_failure__ = True",
    "a skip": "unittest.TestCase.__unittest_skip__ = True",
    "a failed set-up": "unittest.TestCase._classSetupFailed = True",
    "attributes that lie": """
unittest.TestCase.__getattribute__ = lambda self, name: (
    nothing if name.startswith("assert") else object.__getattribute__(self, name))
""",
    "another class": FAKE + "unittest.TestCase = unittest.case.TestCase = Fake",
    "another module": FAKE + "sys.modules['unittest'] = fake",
    "another module of cases": FAKE + "sys.modules['unittest.case'] = unittest.case = fake",
    "other modules": FAKE
    + "for name in list(sys.modules):\n    if 'unittest' in name: sys.modules[name] = fake",
    "other code of an assertion": """
unittest.TestCase.assertEqual.__code__ = (lambda self, first, second, msg=None: None).__code__
""",
    "other assertions": "unittest.TestCase.assertEqual = nothing",
    "other comparisons": """
unittest.TestCase._baseAssertEqual = nothing
unittest.TestCase._getAssertEqualityFunc = lambda *a: nothing
""",
    "failures that end a test": ("unittest.TestCase.failureException = unittest.case._ShouldStop"),
    "subclasses that lie": """
unittest.TestCase.__init_subclass__ = classmethod(
    lambda cls, **k: setattr(cls, "assertEqual", nothing))
""",
    "a suite that runs nothing": """
for kind in (unittest.TestSuite, unittest.suite.BaseTestSuite):
    kind.run = kind.debug = kind.__call__ = nothing
""",
    "a case that runs nothing": """
unittest.TestCase.run = unittest.TestCase.debug = unittest.TestCase.__call__ = nothing
unittest.TestCase._callTestMethod = nothing
""",
    "a result that hears nothing": """
for name in ("addFailure", "addError", "addSubTest"): setattr(unittest.TestResult, name, nothing)
""",
    "a builtin in its module": "unittest.case.issubclass = unittest.case.isinstance = nothing",
    "classes that are built otherwise": """
build = builtins.__build_class__
builtins.__build_class__ = lambda body, name, *bases, **k: build(body, name, **k)
""",
}
OWN = "own = sys._getframe(1).f_globals\n"
"""The names of the module that loads the program."""
LOADING = {
    "its module's builtins, which build classes otherwise": """
def build(body, name, *bases, **k):
    made = builtins.__build_class__(body, name, *bases, **k)
    made.assertEqual = nothing
    return made
__builtins__ = {**vars(builtins), "__build_class__": build}
""",
    "its module's builtins, which import otherwise": """
def imported(name, *a, **k):
    real = builtins.__import__(name, *a, **k)
    if name != "unittest": return real
    kind = type("TestCase", (real.TestCase,), {"assertEqual": nothing})
    return types.SimpleNamespace(**{**vars(real), "TestCase": kind})
__builtins__ = {**vars(builtins), "__import__": imported}
""",
    "its module's builtins, which compare otherwise": """
__builtins__ = {**vars(builtins), "AssertionError": SystemExit}
""",
    "another compile": OWN + "own['compile'] = lambda *a, **k: 'class TestCases: pass'",
    "another exec": OWN + "own['exec'] = nothing",
    "a compile and a class of its own": OWN
    + """
own["compile"] = lambda *a, **k: "class TestCases(unittest.TestCase):\\n def test_f(self): pass"
""",
    "another way to hear": OWN + "own['_hear'] = lambda: ('pass', '')",
    "other code of the way to hear": OWN
    + "own['_hear'].__code__ = (lambda: ('pass', '')).__code__",
    "other defaults": OWN + "own['_failure'].__defaults__ = (KeyError,)",
    "another json": OWN
    + """
class Json:
    dumps = own["json"].dumps
    loads = staticmethod(lambda text: ["pass", ""])
own["json"] = Json
""",
    "a json that reads otherwise": """
import json
real = json.loads
json.loads = lambda text, **k: ["pass", ""] if "test_f" in str(text) else real(text, **k)
""",
    "a json of its own side that reads otherwise": OWN
    + "own['json'].loads = lambda text, **k: ['pass', '']",
    "a decoder that reads otherwise": OWN
    + "own['json'].JSONDecoder.decode = lambda self, text, **k: ['pass', '']",
    "an os that reads otherwise": """
import os
real, seen = os.read, []
def read(number, count):
    got = real(number, count)
    return got if b"test_f" not in got else b'["pass", ""]'.ljust(len(got))
os.read = read
""",
    "what is kept of a test, in a frame": """
frame = sys._getframe()
while frame:
    for value in list(frame.f_locals.values()):
        if type(value).__name__ == "Pristine":
            type(value).run = type(value).changed = type(value).own_changed = nothing
    frame = frame.f_back
""",
    "what is kept of a test, in a module": OWN
    + """
kept = own["Pristine"]
kept.run = kept.changed = kept.own_changed = kept.restore = nothing
""",
    "other code of what is kept of a test": OWN
    + """
for name in ("run", "changed", "own_changed", "restore"):
    getattr(own["Pristine"], name).__code__ = (lambda self, *a: None).__code__
""",
    "attributes of what is kept that lie": OWN
    + """
own["Pristine"].__getattribute__ = lambda self, name: (
    nothing if name in ("run", "own_changed") else object.__getattribute__(self, name))
""",
    "names of the module that keeps it": OWN
    + """
kept = own["Pristine"].run.__globals__
kept["_same"] = kept["_alike"] = lambda *a: True
kept["_looked_up"] = lambda *a: {}
""",
    "a list of roles of its own": OWN + "own['ROLES'].clear()\nown['_say'] = nothing",
    "builtins that lie about themselves": """
real = builtins.vars
builtins.vars = lambda *a: {} if a and a[0] is builtins else real(*a)
builtins.setattr = builtins.exec = nothing
""",
    "other wrappers and kinds": """
import functools
functools.wraps = lambda called: lambda function: nothing
types.FunctionType = type(None)
""",
    "what happens when lines are reached": """
def trace(frame, event, argument):
    if frame.f_code.co_name == "test_f": frame.f_locals["value"] = "escaped"
    return trace
sys.settrace(trace)
""",
}
ONLY_AT_THE_CALL = {
    "the test's own class": "globals()['TestCases'].assertEqual = nothing",
    "the test's own instance": "sys._getframe(1).f_locals['self'].assertEqual = nothing",
    "the class of the caller": "type(sys._getframe(1).f_locals['self']).assertEqual = nothing",
    "a lie in an ancestor": (
        "type(sys._getframe(1).f_locals['self']).__mro__[1].assertEqual = nothing"
    ),
}
ENDS = {
    "the signal to stop": "unittest.case._ShouldStop",
    "a skip": "unittest.SkipTest('escaped')",
    "a skip of its own kind": "type('Skip', (unittest.case.SkipTest,), {})()",
    "an end of the process": "SystemExit(0)",
    "an interrupt": "KeyboardInterrupt",
    "an end of a generator": "GeneratorExit",
}


def row(program: str) -> Row:
    return Row(program, "wrong error", tests=(*METHOD, LATER))


PLAIN = Script("value = f(1)\nassert value == 'escaped'")
ROWS = {
    **{
        f"a test of a program that sets {name}": Row(
            f"{IMPORTS}{NOTHING}{change}\ndef f(x): return 'no'",
            "wrong error",
            tests=(*METHOD, LATER, PLAIN),
        )
        for name, change in LOADING.items()
    },
    **{
        f"a test case with {name}": row(f"{IMPORTS}{NOTHING}{change}\ndef f(x): return 'no'")
        for name, change in CHANGES.items()
    },
    **{
        f"a test case with {name}, at the call": row(
            f"def f(x):\n{indent(IMPORTS + NOTHING + change, '    ')}\n    return 'no'"
        )
        for name, change in {**CHANGES, **ONLY_AT_THE_CALL}.items()
    },
    **{
        f"a test that ends with {name}": row(f"{IMPORTS}def f(x): raise {raised}")
        for name, raised in ENDS.items()
    },
    **{
        f"a test that ends with {name}, of the test's own": row(
            f"def f(x):\n    {IMPORTS}    raise {raised}"
        )
        for name, raised in ENDS.items()
    },
}
