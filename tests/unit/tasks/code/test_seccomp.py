"""The seccomp filter, run over system calls as the kernel would."""

import errno
import re
import socket
import struct
from pathlib import Path

import pytest

from metis.tasks.code import seccomp
from metis.tasks.code.seccomp import ALLOW, AUDIT_ARCH, BY_ARGUMENTS, KILL, REFUSED

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
    "setsockopt": [((3, 1, 2), True), ((3, 6, 7), True), *[((3, 1, n), False) for n in (7, 8, 32)]],
    "fcntl": [((1, 1032), True), ((1, 1031, 1 << 20), False)],
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


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_those_of_the_kernel(machine):
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"{header} is not there: apt-get install linux-libc-dev")
    found = dict(re.findall(r"define __NR(?:3264)?_(\w+) (\d+)", header.read_text()))
    numbers = {name: number_of(machine, name) for name in NUMBERS}
    known = {name: int(found[name]) for name in numbers if name in found}
    assert len(known) > 30 and known == {name: numbers[name] for name in known}
