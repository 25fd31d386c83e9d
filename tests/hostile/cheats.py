"""Programs that want a pass that they have not earned."""

import secrets

from hostile.row import Row
from metis.tasks.sandbox import Asserts, Call, Io, Script

CALL = (Call("f", (1,), "escaped"),)
ASSERTS = (Asserts("assert f(1) == 'escaped'", ("f",)),)
SCRIPT = (Script("assert f(1) == 'escaped'"),)
METHOD = (
    Script(
        """
import unittest
class TestCases(unittest.TestCase):
    def test_f(self):
        self.assertEqual(f(1), "escaped")
""",
        "TestCases.test_f",
    ),
)
TWO = (Io("1\n", "one"), Io("2\n", "two"))
EQUAL = """
class Equal(str):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = str.__hash__
def f(x): return Equal("no")
"""
SAY = """
import json, os
def say(*message):
    content = json.dumps(message).encode()
    os.write(4, len(content).to_bytes(4, "big") + b"M" + content)
"""
"""Messages in the name of the process's own side."""

ROWS = {
    "an exit without output": Row("import sys; sys.exit(0)", "wrong"),
    "an exit from the process": Row("import os; os._exit(0)", "wrong"),
    "the right output and a failure": Row("print('escaped'); raise SystemExit(3)", "error", "3"),
    "the right output and a crash": Row(
        "import os; print('escaped', flush=True); os.abort()", "error", "SIGABRT"
    ),
    "the right output and no end": Row("print('escaped', flush=True)\nwhile 1: pass", "timeout"),
    "the right output and then more": Row("print('escaped')\nprint('or not')", "wrong"),
    "the right output among NUL bytes": Row("print('\\0escaped\\0')", "wrong"),
    "the right output among bad UTF-8": Row(
        "import os; os.write(1, b'\\xff\\xfeescaped')", "wrong"
    ),
    "a source with NUL bytes": Row("print('escaped')\0", "error", "null bytes"),
    "a source that is none": Row("\ud800print('escaped')", "error"),
    "a closed stdout": Row("import os, sys; sys.stdout.close(); os.close(1)", "wrong"),
    "stdout elsewhere": Row("import sys; sys.stdout = sys.stderr; print('escaped')", "wrong"),
    "an exception in __del__": Row(
        "class X:\n    def __del__(self): raise ValueError\nx = X()\ndel x\nprint('no')", "wrong"
    ),
    "an exception at exit": Row(
        "import atexit, os; atexit.register(os._exit, 7); print('escaped', flush=True)",
        "error",
        "7",
    ),
    "the words of the sandbox": Row("print('passed', 'ok', True, 1)", "wrong"),
    "another test's answer": Row("print('two')", "wrong passed", tests=TWO),
    "an answer kept for the next test": Row(
        """
import glob, os
for path in glob.glob("/tmp/*") + glob.glob("/dev/shm/*"): print("two", flush=True); os._exit(0)
open("/tmp/kept", "w").write(input())
open("/tmp/.hidden", "w").write("two")
os.mkdir("/tmp/closed", 0)
""",
        "wrong",
        tests=TWO,
    ),
    "a process kept for the next test": Row(
        """
import os, socket
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("\\0kept")
    print("two", flush=True)
except OSError:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            s.bind("\\0kept")
            s.listen()
            while True: s.accept()
    import time
    time.sleep(0.2)
""",
        "wrong",
        tests=TWO,
    ),
    "attributes of a folder kept for the next test": Row(
        """
import os
found = os.stat("/tmp")
if 12345 in (found.st_atime, found.st_mtime) or found.st_mode & 1 or os.listxattr("/tmp"):
    print("two", flush=True)
os.utime("/tmp", (12345, 12345))
os.chmod("/tmp", 0o711)
os.setxattr("/tmp", "user.kept", b"x")
""",
        "blocked",
        "not permitted",
        tests=TWO,
    ),
    "inputs of other tests": Row(
        """
import gc
secret = "".join(["t", "w", "o"])
found = [x for x in gc.get_objects() if isinstance(x, dict) and secret in map(str, x.values())]
print(secret if len(found) > 1 else "none")
""",
        "wrong",
        tests=TWO,
    ),
    "the expected output in its memory": Row(
        """
import ctypes, re
found = []
for line in open("/proc/self/maps"):
    start, end = (int(part, 16) for part in line.split()[0].split("-"))
    if " rw-p " in line:
        found += re.findall(b"escaped-[0-9a-f]{32}", ctypes.string_at(start, end - start))
print(*found)
""",
        "wrong",
        tests=(Io("", f"escaped-{secrets.token_hex(16)}"),),
    ),
    "messages by hand": Row(
        SAY + "say('value', '', 'escaped'); say('ended'); say('word', '')", "wrong"
    ),
    "frames without end": Row(
        "import os\nwhile True: os.write(4, b'\\0\\0\\0\\1M1')", "output timeout"
    ),
    "empty frames": Row(
        """
import os
many = b"\\0\\0\\0\\0M" * 400
for _ in range(63): os.write(4, many)
print("escaped")
""",
        "output",
    ),
    "a set of many items": Row(
        "def f(x): return set(range(400_000))",
        "output",
        tests=(Call("f", (1,), {1}), Asserts("assert f(1) == {1}", ("f",))),
    ),
    "a frame of four gigabytes": Row("import os; os.write(4, b'\\xff' * 4096)", "output"),
    "messages that are none": Row(
        "import os; os.write(4, b'\\0\\0\\0\\2M[['); os.write(4, b'\\0\\0\\0\\2M\\xff\\xff')",
        "wrong",
    ),
    "messages of great depth": Row(
        "import os; os.write(4, (60000).to_bytes(4, 'big') + b'M' + b'[' * 60000)", "wrong"
    ),
    "a failure that is a pass": Row(SAY + "say('failed', 'passed', 'escaped')", "error"),
    "a failure that is none": Row(SAY + "say('failed', [], {}); say('failed', ['x'])", "error"),
    "a failure of no text": Row(SAY + "say('failed', 'wrong', '\\ud800')", "wrong", "?"),
    "an exception that is none": Row(
        SAY + "def f(x):\n    say('raised', [], {}, 1); os._exit(0)", "error", tests=ASSERTS
    ),
    "a value of sets in sets": Row(
        SAY
        + """
def f(x):
    import sys
    frame = sys._getframe(1)
    value = '{"set": [' * 900 + "]}" * 900
    content = '["value", "%s", %s]' % (frame.f_locals["word"], value)
    os.write(4, len(content).to_bytes(4, "big") + b"M" + content.encode())
    os._exit(0)
""",
        "wrong error",
        tests=(Call("f", (1,), {1}),),
    ),
    "a value equal to all": Row(EQUAL, "wrong", tests=CALL),
    "a value equal to all, of no plain type": Row(
        "class E:\n    __eq__ = lambda *a: True\ndef f(x): return E()", "error", "plain", CALL
    ),
    "a value that contains itself": Row(
        "x = []\nx.append(x)\ndef f(_): return x", "error", "RecursionError", CALL
    ),
    "a value without end": Row("def f(x):\n    while True: yield 1", "error", "plain", tests=CALL),
    "a huge value": Row("def f(x): return 'x' * (10 << 20)", "output", tests=CALL),
    "a huge number as a value": Row(
        "def f(x): return 7 ** 40000", "wrong", tests=(Call("f", (1,), 7),)
    ),
    "a value of equal hashes": Row(
        "def f(x): return {n * ((1 << 61) - 1): 0 for n in range(3000)}", "wrong", tests=CALL
    ),
    "a lying subclass of int": Row(
        """
class Liar(int):
    def __int__(self): return 7
    def __index__(self): return 7
    def __eq__(self, other): return True
    def __abs__(self): return 7
def f(x): return Liar(1)
""",
        "wrong",
        tests=(Call("f", (1,), 7),),
    ),
    "an item that is a lie": Row(
        "class L:\n    def item(self): return L()\ndef f(x): return L()", "error", "plain", CALL
    ),
    "an answer before the question": Row(
        SAY + "say('loaded'); say('value', '0' * 64, 'escaped'); os._exit(0)", "error", tests=CALL
    ),
    "an exit in a call": Row("import os\ndef f(x): os._exit(0)", "error", tests=CALL),
    "an exit before a call": Row("import sys; sys.exit(0)", "error", "SystemExit", CALL),
    "no such function": Row("def g(x): return 'escaped'", "error", "no 'f'", CALL),
    "asserts of a value equal to all": Row(EQUAL, "wrong", tests=ASSERTS),
    "asserts in the wrong process": Row(
        """
import builtins, sys
builtins.AssertionError = ValueError
sys.settrace(lambda *a: None)
def f(x):
    frame = sys._getframe()
    while frame:
        frame.f_globals["f"] = lambda x: "escaped"
        frame = frame.f_back
    return "no"
""",
        "wrong",
        tests=ASSERTS,
    ),
    "an assertion of its own": Row(
        "def f(x): raise AssertionError('escaped')", "wrong", tests=ASSERTS
    ),
    "the end of a loop in asserts": Row(
        "def f(x): raise StopIteration",
        "error",
        "StopIteration",
        tests=(
            Asserts("assert all(map(lambda x: f(x) == 2 * x, [1, 2]))", ("f",)),
            Asserts("for x in map(f, [1, 2]):\n    assert x == 5", ("f",)),
            Asserts("assert list(iter(lambda: f(1), 0)) == []", ("f",)),
        ),
    ),
    "the end of an asynchronous loop in asserts": Row(
        "def f(x): raise StopAsyncIteration",
        "error",
        "StopAsyncIteration",
        tests=(
            Asserts(
                """
import asyncio
class Each:
    def __aiter__(self): return self
    async def __anext__(self): return f(1)
async def main():
    async for x in Each(): assert x == 5
asyncio.run(main())
""",
                ("f",),
            ),
        ),
    ),
    "an exit in asserts": Row("import os\ndef f(x): os._exit(0)", "error", tests=ASSERTS),
    "the end of asserts by hand": Row(
        SAY + "def f(x):\n    say('ended'); os._exit(0)", "error", tests=ASSERTS
    ),
    "an exit before a script": Row("import sys; sys.exit(0)", "error", tests=SCRIPT),
    "an exit from a script": Row("import os\ndef f(x): os._exit(0)", "error", tests=SCRIPT),
    "SystemExit in a script": Row("def f(x): raise SystemExit(0)", "error", tests=SCRIPT),
    "the end of a script by hand": Row(
        SAY + "def f(x):\n    say('ended'); say('word', '0' * 64); os._exit(0)",
        "error",
        "nonce",
        SCRIPT,
    ),
    "builtins that lie": Row(
        """
import builtins
builtins.AssertionError = KeyError
builtins.compile = lambda *a, **k: compile
builtins.exec = lambda *a, **k: None
def f(x): return "no"
""",
        "wrong",
        tests=SCRIPT,
    ),
    "a patched test case": Row(
        """
import unittest
unittest.TestCase.assertEqual = lambda *a: None
unittest.TestCase.run = lambda self, result: setattr(result, "testsRun", 1)
unittest.TestSuite.run = unittest.TestCase.run
def f(x): return "no"
""",
        "wrong",
        tests=METHOD,
    ),
}
