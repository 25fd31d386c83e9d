"""Programs that want out: files, processes, network and the kernel of the host."""

from hostile.row import Row, system_call

ANY = """
import os, sys
def attempts(*calls):
    for call in calls:
        try:
            call()
            print("escaped")
            sys.exit()
        except OSError as error:
            last = error
    raise last
"""
"""Attempts of which one is enough; the error of the last otherwise."""

CONNECT = "s.settimeout(1); s.connect({address}); print('escaped')"
SIGNALS = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored under nohup
for number in signal.Signals:
    try:
        os.kill({target}, number)
    except OSError:
        pass
"""

ROWS = {
    "host files": Row(
        """
import os
for path in ("/etc/passwd", "/etc/shadow", "/etc/hostname", "@FILE@", "/root", "/home", "/work"):
    if os.path.lexists(path): print("escaped")
print(sorted(os.listdir("/")))
""",
        "wrong",
    ),
    "a host file": Row("print(open('@FILE@').read())", "error", "FileNotFoundError"),
    "a host file by a link": Row(
        "import os; os.symlink('@FILE@', 'x'); print(open('x').read())",
        "error",
        "FileNotFoundError",
    ),
    "the root of process 1": Row("import os; os.listdir('/proc/1/root')", "blocked"),
    "the working folder of process 1": Row("import os; os.listdir('/proc/1/cwd')", "blocked"),
    "the environment": Row(
        """
import os
known = {"HOME", "TMPDIR", "PATH", "LANG", "PWD", "PYTHONHASHSEED", "MPLBACKEND",
         "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
print("escaped" if set(os.environ) - known else sorted(os.environ))
""",
        "wrong",
    ),
    "the environment of process 1": Row("open('/proc/1/environ').read()", "blocked"),
    "the memory of process 1": Row("open('/proc/1/mem', 'rb')", "blocked"),
    "the memory map of process 1": Row("open('/proc/1/maps').read()", "blocked"),
    "the descriptors of process 1": Row("import os; os.listdir('/proc/1/fd')", "blocked"),
    "a descriptor of process 1": Row(
        system_call("pidfd_getfd", "os.pidfd_open(1), 3, 0"), "blocked", "not permitted"
    ),
    "ptrace of process 1": Row(system_call("ptrace", "16, 1, 0, 0"), "blocked", "not permitted"),
    "ptrace of itself": Row(system_call("ptrace", "0, 0, 0, 0"), "blocked", "not permitted"),
    "process_vm_readv": Row(
        system_call("process_vm_readv", "1, 0, 0, 0, 0, 0"), "blocked", "not permitted"
    ),
    "other processes": Row(
        """
import os
others = [name for name in os.listdir("/proc") if name.isdigit()]
print("escaped" if len(others) > 2 else others)
""",
        "wrong",
    ),
    "signals to process 1": Row(SIGNALS.format(target="1") + "print('here')", "wrong"),
    "signals to its group": Row(
        SIGNALS.format(target="0") + "print('here')", "error", "ended by signal"
    ),
    "a stop of its group": Row(
        "import os, signal; os.kill(0, signal.SIGSTOP); print('escaped')", "timeout"
    ),
    "signals to all": Row(SIGNALS.format(target="-1") + "print('here')", "wrong"),
    "signals to its parent": Row(SIGNALS.format(target="os.getppid()") + "print('here')", "wrong"),
    "a higher limit": Row(
        "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (1000, 1000))",
        "error blocked",
        "limit",
    ),
    "a higher priority": Row("import os; os.nice(-10); print('escaped')", "blocked"),
    "a real-time schedule": Row(
        "import os; os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))", "blocked"
    ),
    "root": Row("import os; os.setuid(0); print('escaped')", "error blocked", "Errno"),
    "a set-user-id program": Row(
        "import os; os.execv('/usr/bin/su', ['su', '-c', 'echo escaped'])", "error blocked wrong"
    ),
    "a user namespace": Row(system_call("unshare", "0x10000000"), "blocked", "not permitted"),
    "a user namespace by clone": Row(
        system_call("clone", "0x10000000 | 17, 0, 0, 0, 0"),
        "blocked",
    ),
    "another namespace": Row(system_call("setns", "os.open('/proc/self/ns/net', 0), 0"), "blocked"),
    "a mount": Row(system_call("mount", "b'x', b'/tmp', b'tmpfs', 0, 0"), "blocked"),
    "a mount by the new calls": Row(
        system_call("fsopen", "b'tmpfs', 0"), "blocked", "not permitted"
    ),
    "a chroot": Row("import os; os.chroot('/tmp'); print('escaped')", "blocked"),
    "a device": Row(
        "import os; os.mknod('x', 0o60600, os.makedev(254, 0)); print('escaped')", "blocked"
    ),
    "devices": Row(
        """
import os
known = {"null", "zero", "full", "random", "urandom", "shm"}
print("escaped" if set(os.listdir("/dev")) - known else "none")
""",
        "wrong",
    ),
    "a file handle": Row(
        system_call("open_by_handle_at", "-100, 0, 0"), "blocked", "not permitted"
    ),
    "a kernel module": Row(system_call("init_module", "0, 0, b''"), "blocked"),
    "bpf": Row(system_call("bpf", "0, 0, 0"), "blocked", "not permitted"),
    "io_uring": Row(system_call("io_uring_setup", "1, 0"), "blocked", "not permitted"),
    "userfaultfd": Row(system_call("userfaultfd", "0"), "blocked", "not permitted"),
    "the kernel's keys": Row(system_call("add_key", "b'user', b'x', b'y', 1, -3"), "blocked"),
    "calls of the x32 ABI": Row(system_call("getpid of x32", "0"), "blocked error"),
    "settings of the kernel": Row("open('/proc/sys/kernel/core_pattern', 'w')", "blocked"),
    "files in the system": Row(
        ANY
        + """
attempts(*(lambda path=path: open(path + "/@MARKER@", "w") for path in
    ("/", "/usr", "/usr/bin", "/usr/lib", "/dev", "/proc", "/inside", "/etc", "/bin", "/lib")))
""",
        "blocked",
        "Read-only",
    ),
    "files of packages": Row(
        ANY
        + """
import glob
folders = glob.glob("/usr/lib/python3*/*-packages") + glob.glob("/usr/*/lib/python3*/*-packages")
assert folders and not any(map(os.listdir, folders)), "packages can be seen"
attempts(*(lambda path=path: open(path + "/@MARKER@", "w") for path in folders))
""",
        "blocked",
        "Read-only",
    ),
    "files of its own": Row(
        "open('/tmp/@MARKER@', 'w'); open('/dev/shm/@MARKER@.1', 'w'); print('done')", "wrong"
    ),
    "the driver's files": Row(
        "import glob; open(glob.glob('/inside/**/driver.py', recursive=True)[0], 'w')", "blocked"
    ),
    "a link to a system file": Row(
        "import os; os.link('/usr/bin/env', 'x'); print('escaped')", "error blocked", "Errno"
    ),
    "the host's loopback": Row(
        "import socket; s = socket.socket(); " + CONNECT.format(address="('127.0.0.1', @PORT@)"),
        "blocked",
    ),
    "the host's loopback by IPv6": Row(
        "import socket; s = socket.socket(socket.AF_INET6); "
        + CONNECT.format(address="('::1', @PORT@)"),
        "blocked",
    ),
    "the host's loopback by UDP": Row(
        """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(0.3)
s.sendto(b"hello", ("127.0.0.1", @PORT@))
print(s.recv(10).decode())
""",
        "blocked error",
    ),
    "an abstract socket of the host": Row(
        "import socket; s = socket.socket(socket.AF_UNIX); "
        + CONNECT.format(address="chr(0) + '@SOCKET@'"),
        "blocked",
        "refused",
    ),
    "the hypervisor": Row(
        "import socket; s = socket.socket(40, socket.SOCK_STREAM); print('escaped')",
        "blocked",
        "family",
    ),
    "netlink": Row(
        "import socket; s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW); print('escaped')",
        "blocked",
        "family",
    ),
    "raw sockets": Row(
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print('escaped')",
        "blocked",
    ),
}
