"""The seccomp filter, run over system calls as the kernel would."""

import ctypes
import errno
import platform
import re
import socket
import struct
from pathlib import Path

import pytest

import system_calls
from metis.tasks.code import seccomp
from metis.tasks.code.seccomp import ALLOW, AUDIT_ARCH, BY_ARGUMENTS, KILL, NEWEST, REFUSED

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
REFUSAL = 0x00050000
NUMBERS = {**REFUSED, **{refusal.call: refusal.numbers for refusal in BY_ARGUMENTS}}


def number_of(machine, call):
    return NUMBERS[call][list(AUDIT_ARCH).index(machine)]


def decided(machine, number, *arguments, architecture=None):
    """The filter's decision: loads, comparisons, and a return at the end."""
    steps = list(struct.iter_unpack("=HBBI", seccomp.compiled(machine)))
    architecture = AUDIT_ARCH[machine] if architecture is None else architecture
    data = struct.pack("=IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    at = register = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == seccomp.RETURN:
            return value
        if code == seccomp.LOAD:
            (register,) = struct.unpack_from("=I", data, value)
        elif code == seccomp.AND:
            register &= value
        else:
            holds = register == value if code == seccomp.EQUAL else register >= value
            at += if_true if holds else if_false


@pytest.mark.parametrize("machine", AUDIT_ARCH)
def test_the_named_calls_and_no_others_are_refused(machine):
    column = list(AUDIT_ARCH).index(machine)
    refused = {numbers[column] for numbers in REFUSED.values()}
    families = {number_of(machine, call) for call in ("socket", "socketpair")}
    for number in range(600):
        if number in families:
            continue
        expected = REFUSAL | errno.EPERM if number in refused else ALLOW
        expected = REFUSAL | errno.ENOSYS if number > NEWEST else expected
        assert decided(machine, number) == expected, number


@pytest.mark.parametrize("call", ["socket", "socketpair"])
@pytest.mark.parametrize("machine", AUDIT_ARCH)
def test_sockets_are_local_or_of_the_internet(machine, call):
    number = number_of(machine, call)
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):
        assert decided(machine, number, family) == ALLOW
    for family in (0, 16, 17, 30, 38, 40):
        assert decided(machine, number, family) == REFUSAL | errno.EAFNOSUPPORT


HIGH = 1 << 32
BY_HAND = {
    "socket": [((2, 1, 6), True), ((2, 2, 17), True), ((2, 1, 262), False), ((2, 3, 1), False)],
    "setsockopt": [
        *[(arguments, True) for arguments in ((3, 1, 2), (3, 6, 7), (3, 1, 27), (3, 41, 26))],
        *[((3, 1, option), False) for option in (7, 8, 26, 32, 33, 50, 51, 52, 60)],
    ],
    "fcntl": [
        *[((1, command), True) for command in (0, 1, 2, 3, 4, 6, 1025, 1030, 1032, 1035)],
        *[((1, command, 1 << 20), False) for command in (1024, 1026, 1031, 1036, 1038)],
    ],
    "madvise": [((0, 4096, 4), True), ((0, 4096, 20), False), ((0, 4096, 21), False)],
    "prctl": [((4, 0), True), ((HIGH | 22, 2), False), ((22, 1), False), ((22, 2), False)],
    "prlimit64": [((0, 7), True), ((HIGH, 7), True), ((1, 0), False), ((HIGH | 2, 7), False)],
    "mmap": [
        *[((0, 1, 3, flags), True) for flags in (0x22, 0x01, 0x03, 0x4022)],
        *[((0, 1, 3, flags), False) for flags in (0x21, 0x23, 0x40021, HIGH | 0x21)],
    ],
    "rt_sigaction": [
        *[((signal, 0), True) for signal in (17, 2)],
        *[((2, action), True) for action in (1, HIGH)],
        *[((17, action), False) for action in (1, HIGH, HIGH + 1)],
        ((HIGH | 17, 1), False),
    ],
    "ioctl": [((1, 0x5401), True), ((1, 0x40086602), False), ((1, 0x401C5820), False)],
}
"""Arguments by the name of a call, with True where it is allowed."""


@pytest.mark.parametrize("call", BY_HAND)
@pytest.mark.parametrize("machine", AUDIT_ARCH)
def test_calls_are_refused_by_their_arguments(machine, call):
    for arguments, allowed in BY_HAND[call]:
        expected = ALLOW if allowed else REFUSAL | errno.EPERM
        assert decided(machine, number_of(machine, call), *arguments) == expected, arguments


def test_calls_of_another_architecture_end_the_process():
    assert decided("x86_64", 1, architecture=AUDIT_ARCH["aarch64"]) == KILL
    assert decided("x86_64", 0x40000000 + 1) == KILL


def test_there_is_no_filter_for_unknown_machines():
    with pytest.raises(KeyError):
        seccomp.compiled("s390x")


@pytest.mark.parametrize("machine", AUDIT_ARCH)
def test_the_numbers_are_those_of_the_machine(machine):
    column = list(AUDIT_ARCH).index(machine)
    known = system_calls.NUMBERS[machine]
    assert {name: numbers[column] for name, numbers in NUMBERS.items()} == {
        name: known.get(name) for name in NUMBERS
    }


def test_the_table_of_numbers_is_that_of_this_machine_s_header():
    machine = platform.machine()
    if not HEADERS[machine].exists():
        pytest.skip(f"needs {HEADERS[machine]}: apt-get install linux-libc-dev")
    text = HEADERS[machine].read_text()
    found = {n: int(v) for n, v in re.findall(r"define __NR(?:3264)?_(\w+) (\d+)", text)}
    known = system_calls.NUMBERS[machine]
    shared = found.keys() & known.keys()
    assert len(shared) > 280 and {n: found[n] for n in shared} == {n: known[n] for n in shared}


@pytest.mark.parametrize("machine", AUDIT_ARCH)
def test_the_table_of_numbers_is_libseccomp_s_where_that_is_installed(machine):
    known = system_calls.NUMBERS[machine]
    assert len(known) == len(set(known.values())) > 300 and max(known.values()) == NEWEST
    try:
        resolve = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name_arch
    except OSError:
        return
    resolve.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    found = {name: resolve(AUDIT_ARCH[machine], name.encode()) for name in known}
    told = {name: number for name, number in found.items() if number >= 0}
    assert len(told) > 280 and told == {name: known[name] for name in told}
