"""Programs that turn the kernel against the watch: schedules and limits of the driver, memory that
no process shows, counts that all sandboxes share."""

from hostile.row import Row, system_call

ATTEMPT = """
import ctypes, os, resource, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(call, *arguments):
    try: call(*arguments)
    except (OSError, ValueError): return False
    return True
def refused(*calls):
    print("escaped" if any(attempt(*call) for call in calls) else "refused")
"""
STARVE = (
    ATTEMPT
    + """
core = min(os.sched_getaffinity(0))
attempt(os.sched_setaffinity, 1, {core})
attempt(os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))
attempt(os.setpriority, os.PRIO_PROCESS, 1, 19)
for _ in range(PROCESSES):
    if os.fork() == 0:
        attempt(os.sched_setaffinity, 0, {core})
        EACH
"""
)
"""Children on the one core that is left to process 1, where they come before it."""


def starved(each: str, processes: int = 30) -> str:
    """A program that starves the driver, and what each of its processes does."""
    return STARVE.replace("PROCESSES", str(processes)).replace("EACH", each)


BUSY = starved("while True: pass") + "print('escaped', flush=True)\nwhile True: pass"
RESPAWNING = starved(
    """
        while True:
            try:
                if os.fork(): os._exit(0)
                os.setsid()
            except OSError: pass
"""
)
LEADER = """
import ctypes, os, platform, threading, time
exit_thread = ctypes.c_long({"x86_64": 60, "aarch64": 93}[platform.machine()])
def end_first_thread(then):
    threading.Thread(target=then).start()
    ctypes.CDLL(None).syscall(exit_thread, 0)
def fill(megabytes):
    kept = []
    for _ in range(megabytes):
        kept.append(bytearray(b"x") * (1 << 20))
    time.sleep(1.5)
    print("escaped", flush=True)
    os._exit(0)
"""
IN_FLIGHT = """
import array, os, socket
def send(count):
    ours, theirs = socket.socketpair()
    rights = array.array("i", [0] * count)
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    return ours, theirs
"""

FILTER = """
import ctypes, socket, struct
steps = [struct.pack("=HBBI", 0x20, 0, 0, at) for at in range(999)]
steps.append(struct.pack("=HBBI", 6, 0, 0, 0))
content = ctypes.create_string_buffer(b"".join(steps))
program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(content))
def datagrams(): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
"""
"""A filter of a thousand steps, which the kernel compiles."""

MAPPINGS = """
import resource
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
used = 4096 * int(open("/proc/self/statm").read().split()[0])
space = resource.getrlimit(resource.RLIMIT_AS)[0] - used - (24 << 20)
count = min(60000, space >> 12)
base = libc.mmap(None, count << 12, 3, 0x22, -1, 0)
for number in range(0, count, 2): libc.mprotect(base + (number << 12), 4096, 1)
def rest():
    time.sleep(20)
    print("escaped", flush=True)
threading.stack_size(1 << 20)
for _ in range(7):
    if os.fork() == 0: break
"""
"""Mappings of a page each, of which none is resident, copied by forks."""

ROWS = {
    "a core for process 1": Row(
        ATTEMPT + "refused((os.sched_setaffinity, 1, {0}), (os.sched_setaffinity, 0, {0}))", "wrong"
    ),
    "an idle schedule of process 1": Row(
        ATTEMPT + "refused((os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0)),"
        " (os.sched_setscheduler, 1, os.SCHED_BATCH, os.sched_param(0)))",
        "wrong",
    ),
    "parameters of process 1's schedule": Row(
        system_call("sched_setparam", "1, ctypes.byref(ctypes.c_int(0))"), "blocked", "permitted"
    ),
    "attributes of process 1's schedule": Row(
        system_call("sched_setattr", "1, (ctypes.c_uint * 12)(48, 5), 0"), "blocked", "permitted"
    ),
    "a low priority of process 1": Row(
        ATTEMPT + "refused(*((os.setpriority, which, 1, 19) for which in range(3)),"
        " (os.setpriority, os.PRIO_USER, 0, 19))",
        "wrong",
    ),
    "a low priority of process 1's input and output": Row(
        system_call("ioprio_set", "1, 1, 3 << 13"), "blocked", "permitted"
    ),
    "no CPU time for process 1": Row(
        "import resource; resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)); print('escaped')",
        "blocked",
        "not permitted",
    ),
    "no descriptors and no memory for process 1": Row(
        ATTEMPT
        + """
kinds = (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE)
refused(*((resource.prlimit, 1, kind, (0, 0)) for kind in kinds),
        (resource.prlimit, 1, resource.RLIMIT_CPU))
""",
        "wrong",
    ),
    "the driver's own attributes": Row(
        ATTEMPT
        + """
def write(name): os.write(os.open(f"/proc/1/{name}", os.O_WRONLY), b"1")
names = ("oom_score_adj", "autogroup", "timerslack_ns", "clear_refs", "coredump_filter", "comm")
refused(*((write, name) for name in names))
""",
        "wrong",
    ),
    "a starved driver": Row(starved("while True: pass", 7) + "while True: pass", "timeout"),
    "memory behind a starved driver": Row(
        starved("kept = b'x' * (60 << 20)\n        while True: pass", 7) + "time.sleep(30)",
        "memory timeout",
    ),
    "files behind a starved driver": Row(
        starved("while True: pass", 4)
        + """
for number in range(100000): open(f"x{number}", "w").close()
print("escaped")
""",
        "memory timeout",
    ),
    "many mappings in many processes": Row(LEADER + MAPPINGS + "rest()", "memory", "out of memory"),
    "many mappings behind first threads that have ended": Row(
        LEADER + MAPPINGS.replace("range(7)", "range(3)") + "end_first_thread(rest)",
        "memory",
        "out of memory",
    ),
    "memory behind a first thread that has ended": Row(
        LEADER
        + """
for _ in range(4):
    if os.fork() == 0: end_first_thread(lambda: fill(60))
time.sleep(20)
""",
        "memory",
    ),
    "memory behind the test's own first thread and a grandchild's": Row(
        LEADER
        + """
if os.fork() == 0:
    if os.fork() == 0: end_first_thread(lambda: fill(70))
    os._exit(0)
end_first_thread(lambda: fill(70))
""",
        "memory",
    ),
    "pages that a socket holds by splice": Row(
        """
import os, socket
kept, (reader, writer), file = [], os.pipe(), open("x", "w+b")
for _ in range(200):
    kept.append(socket.socketpair())
    os.pwrite(file.fileno(), b"x" * (1 << 20), 0)
    for page in range(256):
        os.splice(file.fileno(), writer, 1, offset_src=page << 12)
        os.splice(reader, kept[-1][0].fileno(), 1)
    os.ftruncate(file.fileno(), 0)
print("escaped")
""",
        "blocked",
        "not permitted",
    ),
    "pages that a socket holds by sendfile": Row(
        """
import os, socket
kept, file = [], open("x", "w+b")
for _ in range(200):
    kept.append(socket.socketpair())
    os.pwrite(file.fileno(), b"x" * (1 << 20), 0)
    for page in range(256): os.sendfile(kept[-1][0].fileno(), file.fileno(), page << 12, 1)
    os.ftruncate(file.fileno(), 0)
print("escaped")
""",
        "blocked",
        "not permitted",
    ),
    "pages that pipes share": Row(
        system_call("tee", "os.pipe()[0], os.pipe()[1], 1, 2"), "blocked", "not permitted"
    ),
    "pages that a socket sends without a copy": Row(
        "import socket; socket.socket().setsockopt(socket.SOL_SOCKET, 60, 1); print('escaped')",
        "blocked",
        "not permitted",
    ),
    "memory sent to swap": Row(
        """
import mmap
kept = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
kept.madvise(21)
print("escaped")
""",
        "blocked",
        "not permitted",
    ),
    "notices of files": Row(system_call("inotify_init1", "0"), "blocked", "not permitted"),
    "notices of folders": Row(
        "import fcntl, os; fcntl.fcntl(os.open('/tmp', 0), 1026, 2); print('escaped')",
        "blocked",
        "not permitted",
    ),
    "notices of file systems": Row(
        system_call("fanotify_init", "0x200, 0"), "blocked", "not permitted"
    ),
    "events of asynchronous input and output": Row(
        system_call("io_setup", "65536, ctypes.byref(ctypes.c_ulong(0))"),
        "blocked",
        "not permitted",
    ),
    "events of asynchronous input and output in children": Row(
        "import os\nos.fork()\n" + system_call("io_setup", "64, ctypes.byref(ctypes.c_ulong(0))"),
        "blocked",
        "not permitted",
    ),
    "timers without end": Row(
        system_call("timer_create", "0, 0, ctypes.byref(ctypes.c_int(0))"), "blocked", "permitted"
    ),
    "signals without end": Row(
        """
import ctypes, os, signal
libc = ctypes.CDLL(None)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
sent = 0
nothing = ctypes.c_void_p(0)
while sent < 5000 and libc.sigqueue(os.getpid(), signal.SIGRTMIN, nothing) == 0: sent += 1
print("escaped" if sent == 5000 else "limited")
""",
        "wrong",
    ),
    "descriptors under way": Row(
        IN_FLIGHT + "kept = [send(100) for _ in range(40)]\nprint('escaped')",
        "blocked error",
        "references",
    ),
    "descriptors under way within each other": Row(
        """
import array, socket
kept = ours, theirs = socket.socketpair()
for _ in range(2000):
    rights = array.array("i", [kept[0].fileno(), kept[1].fileno()])
    kept = socket.socketpair()
    kept[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
print("escaped")
""",
        "blocked error memory",
    ),
    "a filter of a socket": Row(
        FILTER + "datagrams().setsockopt(socket.SOL_SOCKET, 26, program); print('escaped')",
        "blocked",
        "not permitted",
    ),
    "filters of sockets that share a port": Row(
        FILTER
        + """
kept = [datagrams() for _ in range(100)]
for each in kept:
    each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    each.setsockopt(socket.SOL_SOCKET, 51, program)
print("escaped")
""",
        "blocked",
        "not permitted",
    ),
    "another filter": Row(system_call("seccomp", "0, 0, 0"), "blocked", "not permitted"),
    "another filter by prctl": Row(system_call("prctl", "22, 1, 0, 0, 0"), "blocked", "permitted"),
    "what the host writes to its disks": Row(
        ATTEMPT
        + """
def call(number, *arguments):
    if libc.syscall(ctypes.c_long(number), *arguments): raise OSError
sync, syncfs = {"x86_64": (162, 306), "aarch64": (81, 267)}[os.uname().machine]
refused((call, sync), (call, syncfs, os.open("/usr", os.O_RDONLY)))
""",
        "wrong",
    ),
    "what the host writes to its disks, from children": Row(
        "import os\nos.fork()\n" + system_call("sync", ""), "blocked", "not permitted"
    ),
    "the kernel's log": Row(
        system_call("syslog", "3, ctypes.create_string_buffer(4096), 4096"),
        "blocked",
        "not permitted",
    ),
    "the size of the kernel's log": Row(
        system_call("syslog", "10, 0, 0"), "blocked", "not permitted"
    ),
    "where pages of a file lie": Row(
        system_call("mbind", "0, ctypes.c_ulong(4096), 2, 0, ctypes.c_ulong(64), 0"),
        "blocked",
        "not permitted",
    ),
    "where memory lies": Row(
        system_call("set_mempolicy", "2, ctypes.byref(ctypes.c_ulong(1)), ctypes.c_ulong(64)"),
        "blocked",
        "not permitted",
    ),
    "where memory lies at first": Row(
        system_call("set_mempolicy_home_node", "0, ctypes.c_ulong(4096), 0, 0"),
        "blocked",
        "not permitted",
    ),
    "attributes of a file by the newest call": Row(
        """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
attributes = (ctypes.c_ulonglong * 4)(0x40)
got = libc.syscall(ctypes.c_long(469), -100, b"/tmp", attributes, ctypes.c_size_t(24), 0)
print("escaped" if got == 0 else os.strerror(ctypes.get_errno()))
raise SystemExit(ctypes.get_errno() != 38)
""",
        "wrong",
    ),
    "hints for a folder": Row(
        "import fcntl, os; fcntl.fcntl(os.open('/tmp', 0), 1036, b'\\x02' + b'\\0' * 7)\n"
        "print('escaped')",
        "blocked",
        "not permitted",
    ),
}
