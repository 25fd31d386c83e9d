"""Programs that want more than their share: time, memory, processes, files, output."""

from hostile.row import Row, system_call

CHILDREN = """
import os, time
for number in range(6):
    if os.fork() == 0:
        {each}
        os._exit(0)
time.sleep(5)
print("escaped")
"""
FILL = """
        import socket
        kept = []
        while True:
            try: kept.append(socket.socketpair())
            except OSError: time.sleep(30)
            for s in kept[-1]:
                s.setblocking(False)
                try:
                    while True: s.send(b"x" * 32000)
                except BlockingIOError: pass
"""

ROWS = {
    "an endless loop": Row("while True: pass", "timeout"),
    "an endless loop that ignores signals": Row(
        """
import signal
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, signal.SIG_IGN)
while True: pass
""",
        "timeout",
    ),
    "a sleep": Row("import time; time.sleep(1000); print('escaped')", "timeout"),
    "a read that nobody answers": Row(
        "import os; r, w = os.pipe(); os.read(r, 1); print('escaped')", "timeout"
    ),
    "a stopped process": Row(
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP); print('escaped')", "timeout"
    ),
    "an endless loop in C": Row("import re; re.match('(a+)+b', 'a' * 64)", "timeout"),
    "a huge integer": Row("x = 9\nprint(len(str(x ** x ** x)) and 'escaped')", "timeout"),
    "a sum over ever": Row("import itertools; sum(itertools.count())", "timeout"),
    "cpu time in children": Row(CHILDREN.format(each="while True: pass"), "timeout"),
    "cpu time in children that nobody waits for": Row(
        """
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(40):
    if os.fork() == 0:
        for _ in range(10 ** 6): pass
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass
print("escaped")
""",
        "blocked",
        "not permitted",
    ),
    "cpu time in children that are orphans": Row(
        """
import os, time
for _ in range(60):
    if os.fork() == 0:
        if os.fork() == 0:
            end = time.process_time() + 0.05
            while time.process_time() < end: pass
        os._exit(0)
    os.wait()
    time.sleep(0.02)
print("escaped")
""",
        "timeout blocked",
    ),
    "a fork bomb": Row("import os\nwhile True: os.fork()", "blocked", "unavailable"),
    "a fork bomb that does not give up": Row(
        """
import os
while True:
    try: os.fork()
    except OSError: pass
""",
        "timeout",
    ),
    "a fork bomb of sessions": Row(
        """
import os
while True:
    try:
        if os.fork() == 0: os.setsid()
    except OSError: pass
""",
        "timeout",
    ),
    "a thread bomb": Row(
        """
import threading, time
for _ in range(200): threading.Thread(target=time.sleep, args=(60,)).start()
print("escaped")
""",
        "error",
        "can't start new thread",
    ),
    "zombies": Row(
        """
import os
for _ in range(500):
    if os.fork() == 0: os._exit(0)
print("escaped")
""",
        "blocked",
        "unavailable",
    ),
    "a memory bomb": Row("x = []\nwhile True: x.append(bytearray(1 << 20))", "memory"),
    "one huge allocation": Row("x = bytearray(1 << 40); print('escaped')", "memory"),
    "a huge string": Row("print(len('x' * (1 << 33)) and 'escaped')", "memory"),
    "memory in children": Row(
        CHILDREN.format(each="x = bytearray(50 << 20); time.sleep(5)"), "memory"
    ),
    "shared memory": Row(
        """
import mmap, os
kept = []
for _ in range(3):
    kept.append(mmap.mmap(-1, 50 << 20))
    kept[-1].write(b"x" * (50 << 20))
print("escaped")
""",
        "blocked",
        "not permitted",
    ),
    "shared memory that no process shows": Row(
        """
import mmap, os, time
for _ in range(6):
    if os.fork() == 0:
        try: kept = mmap.mmap(-1, 80 << 20)
        except PermissionError: os._exit(1)
        for at in range(80):
            kept.write(b"x" * (1 << 20))
            kept.madvise(mmap.MADV_DONTNEED, at << 20, 1 << 20)
        time.sleep(0.5)
        os._exit(0)
print("escaped" if not all(os.wait()[1] for _ in range(6)) else "refused")
""",
        "wrong",
    ),
    "shared memory of a device": Row(
        "import mmap; mmap.mmap(open('/dev/zero', 'r+b').fileno(), 1 << 20); print('escaped')",
        "error",
        "No such file",
    ),
    "memory without address space": Row(
        """
import os
kept = []
while True:
    kept.append(os.memfd_create("x"))
    os.write(kept[-1], b"x" * (1 << 20))
""",
        "blocked",
        "not permitted",
    ),
    "System V shared memory": Row(
        system_call("shmget", "0, ctypes.c_size_t(1 << 30), 0o1600"),
        "blocked",
        "not permitted",
    ),
    "memory in pipes": Row(
        """
import fcntl, os
kept = []
for _ in range(1000):
    kept.append(os.pipe())
    fcntl.fcntl(kept[-1][1], fcntl.F_SETPIPE_SZ, 1 << 20)
    os.write(kept[-1][1], b"x" * (1 << 20))
print("escaped")
""",
        "blocked",
    ),
    "memory in sockets": Row(CHILDREN.format(each=FILL), "memory"),
    "memory in sockets that nobody has open": Row(
        """
import socket, time
listening = socket.socket(socket.AF_UNIX)
listening.bind("\\0x")
listening.listen(4096)
for _ in range(2000):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\\0x")
        s.setblocking(False)
        try:
            while True: s.send(b"x" * 32000)
        except BlockingIOError: pass
time.sleep(0.5)
print("escaped")
""",
        "memory",
    ),
    "memory in connections": Row(
        """
import socket, time
listening = socket.create_server(("127.0.0.1", 0))
kept = []
for _ in range(50):
    s = socket.create_connection(listening.getsockname())
    kept += [s, listening.accept()[0]]
    s.setblocking(False)
    try:
        while True: s.send(b"x" * 65536)
    except BlockingIOError: pass
time.sleep(0.5)
print("escaped")
""",
        "memory",
    ),
    "larger buffers": Row(
        """
import socket
def larger(option):
    try: socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, option, 1 << 24)
    except PermissionError: return False
    return True
print("escaped" if any(map(larger, (socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33))) else "refused")
""",
        "wrong",
    ),
    "a larger pipe": Row(
        "import fcntl, os; fcntl.fcntl(os.pipe()[1], fcntl.F_SETPIPE_SZ, 8192); print('escaped')",
        "blocked",
        "not permitted",
    ),
    "a decompression bomb": Row(
        """
import zlib
small = zlib.compress(b"0" * (8 << 20), 9)
x = [zlib.decompress(small) for _ in range(1000)]
print("escaped")
""",
        "memory",
    ),
    "deep recursion": Row("def f(): return f()\nf()", "error", "RecursionError"),
    "recursion without a limit": Row(
        """
import sys
sys.setrecursionlimit(1 << 30)
class Deep:
    def __getattr__(self, name): return getattr(self, name + "x")
Deep().x
print("escaped")
""",
        "error memory timeout",
    ),
    "recursion in C": Row(
        """
import sys
sys.setrecursionlimit(1 << 30)
x = []
for _ in range(3000000): x = [x]
print(repr(x) and "escaped")
""",
        "error memory timeout",
    ),
    "endless output": Row("while True: print('x' * 1000)", "output"),
    "output in one piece": Row("import os; os.write(1, b'x' * (50 << 20))", "output"),
    "output of children": Row(CHILDREN.format(each="os.write(1, b'x' * (1 << 20))"), "output"),
    "endless output on stderr": Row(
        "import sys\nwhile True: sys.stderr.write('x' * 1000)", "timeout"
    ),
    "a large file": Row(
        "open('x', 'wb').write(b'x' * (20 << 20)); print('escaped')", "blocked", "too large"
    ),
    "a sparse file": Row("open('x', 'wb').truncate(1 << 40); print('escaped')", "blocked"),
    "many files": Row(
        """
for number in range(100):
    with open(f"x{number}", "wb") as file: file.write(b"x" * (1 << 20))
print("escaped")
""",
        "blocked",
        "No space",
    ),
    "empty files without end": Row(
        """
number = 0
while True:
    open(f"x{number}", "w").close()
    number += 1
""",
        "memory",
        "files",
    ),
    "folders within folders": Row(
        """
import os
for _ in range(3000):
    os.mkdir("x")
    os.chdir("x")
print("done")
""",
        "wrong",
    ),
    "descriptors without end": Row(
        "import os\nkept = []\nwhile True: kept.append(os.dup(0))", "blocked", "Too many open files"
    ),
    "parentheses without end": Row("x = " + "(" * 100_000 + ")" * 100_000, "error memory"),
    "a sum of a million terms": Row("x = " + "+".join(["1"] * 300_000), "error memory timeout"),
    "a source of many megabytes": Row("x = '" + "y" * (20 << 20) + "'", "wrong"),
}
