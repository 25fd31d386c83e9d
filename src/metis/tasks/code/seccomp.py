"""The seccomp filter: refuses, with EPERM, system calls that no answer to a problem needs.

These reach other processes or kernel interfaces, change scheduling or memory placement, take memory
that neither RLIMIT_AS nor the file system's size bounds, or have effects that outlast a test. Calls
newer than this filter do not exist (ENOSYS). Some calls are refused depending on their arguments:

| call | refused |
|---|---|
| `socket`, `socketpair` | families without namespaces, such as AF_VSOCK; not TCP or UDP |
| `setsockopt` | larger buffers, zero-copy buffers, and filters |
| `fcntl` | larger pipes, leases, notifications, hints that outlast a test |
| `mmap` | shared memory without a file |
| `madvise` | moving memory to swap, where it counts for no process |
| `prctl` | another seccomp filter |
| `prlimit64` | the limits of other processes |
| `rt_sigaction` | changing SIGCHLD: ignoring it hides the CPU time of children |
| `ioctl` | file attributes, which outlast a test |

The filter is classic BPF over `struct seccomp_data`, as `bwrap --seccomp` reads it.
"""

import errno
import functools
import mmap
import signal
import socket
import struct
from typing import NamedTuple

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32 = 0x40000000
"""The bit of x32 calls, which have other numbers."""
NEWEST = 456
"""The highest call number that is allowed; newer calls have the same number on all machines."""
REFUSED: dict[str, tuple[int, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsetxattr": (190, 7),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "inotify_add_watch": (254, 27),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "io_setup": (206, 0),
    "io_uring_setup": (425, 425),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "landlock_create_ruleset": (444, 444),
    "lsetxattr": (189, 6),
    "mbind": (237, 235),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "seccomp": (317, 277),
    "semget": (64, 190),
    "sendfile": (40, 71),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "setxattr": (188, 5),
    "shmget": (29, 194),
    "splice": (275, 76),
    "swapon": (167, 224),
    "sync": (162, 81),
    "syncfs": (306, 267),
    "syslog": (103, 116),
    "tee": (276, 77),
    "timer_create": (222, 107),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vmsplice": (278, 75),
}
"""Call numbers on x86_64 and on aarch64, None if there is no such call."""
WORD = 0xFFFFFFFF
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16


class Condition(NamedTuple):
    """True if a masked word of an argument is (or, without `among`, is not) one of the values."""

    argument: int
    values: tuple[int, ...]
    among: bool = True
    mask: int = WORD
    high: bool = False

    @property
    def offset(self) -> int:
        return ARGUMENTS + 8 * self.argument + 4 * self.high


class Refusal(NamedTuple):
    """A call that is refused if all conditions hold; numbers as in `REFUSED`."""

    call: str
    numbers: tuple[int, int]
    conditions: tuple[Condition, ...]
    error: int = errno.EPERM


FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
PROTOCOLS = (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP)
BUFFERS = (socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33, 60)
"""The last three are SO_SNDBUFFORCE, SO_RCVBUFFORCE and SO_ZEROCOPY."""
FILTERS = (26, 50, 51, 52)
"""SO_ATTACH_FILTER, SO_ATTACH_BPF and their REUSEPORT variants: filters are compiled into memory
that is scarce on the whole host, and that the sandboxes' own filters need."""
OPTIONS = (*BUFFERS, *FILTERS)
CONTROLS = (1024, 1026, 1031, 1036, 1038)
"""F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ, F_SET_RW_HINT and F_SET_FILE_RW_HINT."""
TO_SWAP = (20, 21)
"""MADV_COLD and MADV_PAGEOUT."""
SHARED = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS
"""The bit of MAP_SHARED is also that of MAP_SHARED_VALIDATE."""
PR_SET_SECCOMP = 22
ATTRIBUTES = (0x40086602, 0x401C5820)
"""FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR."""
_OF_CHILDREN = Condition(0, (signal.SIGCHLD,))
BY_ARGUMENTS = (
    Refusal("socket", (41, 198), (Condition(0, FAMILIES, among=False),), errno.EAFNOSUPPORT),
    Refusal("socket", (41, 198), (Condition(2, PROTOCOLS, among=False),)),
    Refusal("socketpair", (53, 199), (Condition(0, FAMILIES, among=False),), errno.EAFNOSUPPORT),
    Refusal("setsockopt", (54, 208), (Condition(1, (socket.SOL_SOCKET,)), Condition(2, OPTIONS))),
    Refusal("fcntl", (72, 25), (Condition(1, CONTROLS),)),
    Refusal("mmap", (9, 222), (Condition(3, (SHARED,), mask=SHARED),)),
    Refusal("madvise", (28, 233), (Condition(2, TO_SWAP),)),
    Refusal("prctl", (157, 167), (Condition(0, (PR_SET_SECCOMP,)),)),
    Refusal("prlimit64", (302, 261), (Condition(0, (0,), among=False),)),
    Refusal("rt_sigaction", (13, 134), (_OF_CHILDREN, Condition(1, (0,), among=False))),
    Refusal("rt_sigaction", (13, 134), (_OF_CHILDREN, Condition(1, (0,), among=False, high=True))),
    Refusal("ioctl", (16, 29), (Condition(1, ATTRIBUTES),)),
)

LOAD, AND, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
ALLOW = 0x7FFF0000
KILL = 0x80000000


def _refuse(code: int) -> int:
    return 0x00050000 | code


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


@functools.cache
def compiled(machine: str) -> bytes:
    """The filter for a machine, as named by `platform.machine`; KeyError for unknown ones."""
    column = list(AUDIT_ARCH).index(machine) if machine in AUDIT_ARCH else None
    if column is None:
        raise KeyError(machine)
    steps = [
        _step(LOAD, ARCHITECTURE),
        _step(EQUAL, AUDIT_ARCH[machine], if_true=1),
        _step(RETURN, KILL),
        _step(LOAD, NUMBER),
    ]
    if machine == "x86_64":
        steps += [_step(AT_LEAST, X32, if_false=1), _step(RETURN, KILL)]
    steps += [_step(AT_LEAST, NEWEST + 1, if_false=1), _step(RETURN, _refuse(errno.ENOSYS))]
    for numbers in REFUSED.values():
        if (number := numbers[column]) is not None:
            steps += [_step(EQUAL, number, if_false=1), _step(RETURN, _refuse(errno.EPERM))]
    for refusal in BY_ARGUMENTS:
        steps += _by_arguments(refusal, column)
    return b"".join([*steps, _step(RETURN, ALLOW)])


def _by_arguments(refusal: Refusal, column: int) -> list[bytes]:
    """BPF instructions that refuse a call by its arguments or fall through."""
    steps = [_step(RETURN, _refuse(refusal.error))]
    for condition in reversed(refusal.conditions):
        steps = [
            _step(LOAD, condition.offset),
            _step(AND, condition.mask),
            *_comparisons(condition, len(steps)),
            *steps,
        ]
    return [_step(EQUAL, refusal.numbers[column], if_false=len(steps)), *steps, _step(LOAD, NUMBER)]


def _comparisons(condition: Condition, rest: int) -> list[bytes]:
    """BPF instructions that fall through if a condition holds, and else skip the `rest`."""
    last = len(condition.values) - 1
    steps = []
    for at, value in enumerate(condition.values):
        left = last - at
        if condition.among:
            steps.append(_step(EQUAL, value, left, 0 if left else rest))
        else:
            steps.append(_step(EQUAL, value, left + rest))
    return steps
