"""The seccomp filter, run over system calls as the kernel would."""

import errno
import re
import socket
import struct
from pathlib import Path

import pytest

from metis.tasks.code import seccomp
from metis.tasks.code.seccomp import ALLOW, AUDIT_ARCH, KILL, REFUSED, SOCKET

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
REFUSAL = 0x00050000


def decided(machine, number, argument=0, architecture=None):
    """The filter's decision: loads, comparisons, and a return at the end."""
    steps = list(struct.iter_unpack("=HBBI", seccomp.compiled(machine)))
    architecture = AUDIT_ARCH[machine] if architecture is None else architecture
    data = struct.pack("=IIQQ", number, architecture, 0, argument)
    at = register = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == seccomp.RETURN:
            return value
        if code == seccomp.LOAD:
            (register,) = struct.unpack_from("=I", data, value)
        else:
            holds = register == value if code == seccomp.EQUAL else register >= value
            at += if_true if holds else if_false


@pytest.mark.parametrize("machine", AUDIT_ARCH)
def test_the_named_calls_and_no_others_are_refused(machine):
    column = list(AUDIT_ARCH).index(machine)
    refused = {numbers[column] for numbers in REFUSED.values()}
    for number in range(600):
        if number == SOCKET[machine]:
            continue
        expected = REFUSAL | errno.EPERM if number in refused else ALLOW
        assert decided(machine, number) == expected, number


@pytest.mark.parametrize("machine", AUDIT_ARCH)
def test_sockets_are_local_or_of_the_internet(machine):
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):
        assert decided(machine, SOCKET[machine], family) == ALLOW
    for family in (0, 16, 17, 38, 40):
        assert decided(machine, SOCKET[machine], family) == REFUSAL | errno.EAFNOSUPPORT


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
    column = list(AUDIT_ARCH).index(machine)
    numbers = {name: numbers[column] for name, numbers in REFUSED.items()}
    numbers["socket"] = SOCKET[machine]
    known = {name: int(found[name]) for name in numbers if name in found}
    assert len(known) > 30 and known == {name: numbers[name] for name in known}
