"""A seccomp filter: system calls that no answer to a problem needs, refused with EPERM.

They are those that reach other processes or kernel interfaces, those whose memory neither
RLIMIT_AS nor the size of a file system bounds, and those that would outlast a test. Some calls are
refused by their arguments:

| call | refused |
|---|---|
| `socket`, `socketpair` | families without namespaces, such as AF_VSOCK; not TCP or UDP |
| `setsockopt` | larger buffers |
| `fcntl` | larger pipes |
| `mmap` | shared memory without a file |
| `rt_sigaction` | a new action of SIGCHLD: ignored, it hides the CPU time of children |
| `ioctl` | attributes of files, which would outlast a test |

The filter is classic BPF over `struct seccomp_data`, as `bwrap --seccomp` reads it.
"""

import errno
import mmap
import signal
import socket
import struct
from typing import NamedTuple

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
X32 = 0x40000000
"""The bit of the x32 ABI, whose calls have other numbers."""
REFUSED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsetxattr": (190, 7),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lsetxattr": (189, 6),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "semget": (64, 190),
    "setns": (308, 268),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
    "shmget": (29, 194),
    "swapon": (167, 224),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vmsplice": (278, 75),
}
"""Numbers on x86_64 and on aarch64."""
WORD = 0xFFFFFFFF
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16


class Condition(NamedTuple):
    """A word of an argument, masked, is among these values, or is not."""

    argument: int
    values: tuple[int, ...]
    among: bool = True
    mask: int = WORD
    high: bool = False

    @property
    def offset(self) -> int:
        return ARGUMENTS + 8 * self.argument + 4 * self.high


class Refusal(NamedTuple):
    """A call that is refused where all the conditions hold; numbers as above."""

    call: str
    numbers: tuple[int, int]
    conditions: tuple[Condition, ...]
    error: int = errno.EPERM


FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
PROTOCOLS = (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP)
BUFFERS = (socket.SO_SNDBUF, socket.SO_RCVBUF, 32, 33)
"""The last two are SO_SNDBUFFORCE and SO_RCVBUFFORCE."""
F_SETPIPE_SZ = 1031
SHARED = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS
"""The bit of MAP_SHARED is also that of MAP_SHARED_VALIDATE."""
ATTRIBUTES = (0x40086602, 0x401C5820)
"""FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR."""
_OF_CHILDREN = Condition(0, (signal.SIGCHLD,))
BY_ARGUMENTS = (
    Refusal("socket", (41, 198), (Condition(0, FAMILIES, among=False),), errno.EAFNOSUPPORT),
    Refusal("socket", (41, 198), (Condition(2, PROTOCOLS, among=False),)),
    Refusal("socketpair", (53, 199), (Condition(0, FAMILIES, among=False),), errno.EAFNOSUPPORT),
    Refusal("setsockopt", (54, 208), (Condition(1, (socket.SOL_SOCKET,)), Condition(2, BUFFERS))),
    Refusal("fcntl", (72, 25), (Condition(1, (F_SETPIPE_SZ,)),)),
    Refusal("mmap", (9, 222), (Condition(3, (SHARED,), mask=SHARED),)),
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


def compiled(machine: str) -> bytes:
    """The filter for a machine as `platform.machine` names it; a KeyError for others."""
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
    for numbers in REFUSED.values():
        steps += [
            _step(EQUAL, numbers[column], if_false=1),
            _step(RETURN, _refuse(errno.EPERM)),
        ]
    for refusal in BY_ARGUMENTS:
        steps += _by_arguments(refusal, column)
    return b"".join([*steps, _step(RETURN, ALLOW)])


def _by_arguments(refusal: Refusal, column: int) -> list[bytes]:
    """Steps that refuse a call or go on, with the call's number loaded."""
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
    """Steps that go on where a condition holds, and skip the `rest` of them where it does not."""
    last = len(condition.values) - 1
    steps = []
    for at, value in enumerate(condition.values):
        left = last - at
        if condition.among:
            steps.append(_step(EQUAL, value, left, 0 if left else rest))
        else:
            steps.append(_step(EQUAL, value, left + rest))
    return steps
