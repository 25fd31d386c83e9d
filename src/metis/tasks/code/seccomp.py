"""A seccomp filter: system calls that no answer to a problem needs, refused with EPERM.

They are those that reach other processes or kernel interfaces, and those whose memory neither
RLIMIT_AS nor the size of a file system bounds. Sockets are local or of the Internet families, which
the sandbox's own empty network serves; others, such as AF_VSOCK, have no namespaces.

The filter is classic BPF over `struct seccomp_data`, as `bwrap --seccomp` reads it.
"""

import errno
import socket
import struct

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SOCKET = {"x86_64": 41, "aarch64": 198}
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
X32 = 0x40000000
"""The bit of the x32 ABI, whose calls have other numbers."""
REFUSED = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
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
    "shmget": (29, 194),
    "swapon": (167, 224),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vmsplice": (278, 75),
}
"""Numbers on x86_64 and on aarch64."""

LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
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
    steps += [_step(EQUAL, SOCKET[machine], if_true=1), _step(RETURN, ALLOW)]
    steps.append(_step(LOAD, FIRST_ARGUMENT))
    for family in FAMILIES:
        steps += [_step(EQUAL, family, if_false=1), _step(RETURN, ALLOW)]
    steps.append(_step(RETURN, _refuse(errno.EAFNOSUPPORT)))
    return b"".join(steps)
