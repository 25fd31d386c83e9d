"""bubblewrap's command line: read-only system, no network, no devices, one private folder.

A sandbox that root starts runs as nobody inside and as an otherwise unused uid outside: the kernel
enforces no process limit for root, and its other per-user limits, such as file descriptors in
flight, would be shared by all sandboxes of one uid.
"""

import functools
import os
import platform
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from metis.errors import MetisError
from metis.tasks.code import seccomp, visible

NOBODY = 65534
NOBODIES = range(0x70000000, 0x7FFFFFFF)
"""Host uids that no system assigns."""
PYTHON = "METIS_SANDBOX_PYTHON"
"""Environment variable: the Python interpreter that runs programs."""
DEVICES = ("null", "full", "random", "urandom")
"""Not `zero`: its shared mappings are memory that counts for no process."""
SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives")
"""Files that the lookup of programs and libraries in /usr needs."""
ENVIRONMENT = {
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONPATH": "/inside",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
INSTALLERS = {
    "apt-get": "apt-get install -y {}",
    "dnf": "dnf install -y {}",
    "pacman": "pacman -S --noconfirm {}",
    "zypper": "zypper install -y {}",
    "apk": "apk add {}",
}


class SandboxMissing(MetisError):
    """bubblewrap is missing or does not isolate on this machine; no program is run."""


def install_command(package: str = "bubblewrap") -> str:
    """The command that installs a package on this machine."""
    for tool, command in INSTALLERS.items():
        if shutil.which(tool):
            return ("" if os.geteuid() == 0 else "sudo ") + command.format(package)
    return f"install {package} with this system's package manager"


def executable() -> str:
    """The path of bubblewrap; SandboxMissing without it."""
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxMissing(
            f"bubblewrap is not installed, and programs are only run inside it: {install_command()}"
        )
    return program


@dataclass(frozen=True)
class Interpreter:
    """The Python interpreter that runs programs, and the folders outside /usr that it needs."""

    path: str
    folders: tuple[str, ...]


@functools.cache
def interpreter() -> Interpreter:
    """This process's Python without its packages, or the system's if the sandbox's user cannot
    read this one."""
    named = os.environ.get(PYTHON)
    if named:
        if not reachable(Path(named)):
            raise SandboxMissing(f"{PYTHON} = {named!r}: {_user()} cannot execute it")
        return _described(named)
    own = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    if reachable(Path(own)) and reachable(Path(sys.base_prefix) / "lib"):
        return _with_folders(own, sys.base_prefix)
    system = os.path.realpath("/usr/bin/python3")
    if not reachable(Path(system)):
        raise SandboxMissing(
            f"{own!r} cannot be executed by {_user()}, and there is no /usr/bin/python3: "
            f"set {PYTHON} to a Python that everybody can execute"
        )
    return Interpreter(system, ())


def _described(path: str) -> Interpreter:
    asked = [path, "-I", "-S", "-c", "import sys; print(sys.base_prefix)"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxMissing(f"{PYTHON} = {path!r}: not a Python interpreter ({error})") from error
    return _with_folders(os.path.realpath(path), answer.stdout.strip())


def _with_folders(path: str, prefix: str) -> Interpreter:
    if prefix in ("/usr", "/usr/local"):
        return Interpreter(path, ())
    parts = (os.path.join(prefix, name) for name in ("bin", "lib", "lib64"))
    return Interpreter(path, tuple(part for part in parts if os.path.isdir(part)))


def _user() -> str:
    return "nobody" if os.geteuid() == 0 else "this user"


def reachable(path: Path) -> bool:
    """True if the sandbox's user can read a file or folder."""
    path = path.absolute()
    if os.geteuid():
        return os.access(path, os.R_OK | os.X_OK)
    needed = stat.S_IROTH | stat.S_IXOTH
    try:
        open_to_all = path.stat().st_mode & needed == needed
        return open_to_all and all(p.stat().st_mode & stat.S_IXOTH for p in path.parents)
    except OSError:
        return False


def identity() -> int | None:
    """The uid and gid that a sandbox started by root runs as; None if this user is not root.

    In a container that does not map all uids it is nobody.
    """
    if os.geteuid():
        return None
    return secrets.choice(NOBODIES) if all(map(_all_are_mapped, ("uid", "gid"))) else NOBODY


@functools.cache
def _all_are_mapped(kind: str) -> bool:
    rows = [line.split() for line in Path(f"/proc/self/{kind}_map").read_text().splitlines()]
    return any(
        int(first) <= NOBODIES.start and NOBODIES.stop <= int(first) + int(count)
        for first, _, count in rows
    )


def filter_program() -> bytes:
    """The seccomp filter of this machine."""
    try:
        return seccomp.compiled(platform.machine())
    except KeyError as error:
        names = ", ".join(seccomp.AUDIT_ARCH)
        raise SandboxMissing(f"no seccomp filter for {error}: programs run on {names}") from None


def command(
    room: int, libraries: Sequence[Path], files: Mapping[str, int], syscalls: int
) -> list[str]:
    """bubblewrap's command line, for a private folder of `room` bytes.

    `files` are descriptors of files to copy in, by their path in the sandbox; `syscalls` is the
    descriptor of the seccomp filter.
    """
    words = [executable(), "--unshare-all", "--unshare-user", "--disable-userns"]
    words += ["--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL"]
    words += ["--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox", "--clearenv"]
    for name, value in ENVIRONMENT.items():
        words += ["--setenv", name, value]
    words += visible.mounts(interpreter().folders)
    for path in SETTINGS:
        words += ["--ro-bind-try", path, path]
    for name in ("bin", "lib", "lib64"):
        words += _system(f"/{name}")
    for source, target in zip(libraries, library_paths(len(libraries)), strict=True):
        words += ["--ro-bind", str(source), target]
    words += ["--proc", "/proc", "--dir", "/dev"]
    for name in DEVICES:
        words += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    words += ["--size", str(room), "--tmpfs", "/tmp", "--symlink", "/tmp", "/dev/shm"]
    for target, descriptor in files.items():
        words += ["--perms", "0555", "--file", str(descriptor), target]
    return [*words, "--seccomp", str(syscalls), "--chdir", "/tmp", "--remount-ro", "/", "--"]


def library_paths(count: int) -> list[str]:
    """Paths of the library folders inside the sandbox."""
    return [f"/libraries/{number}" for number in range(count)]


def _system(path: str) -> list[str]:
    """Options for /bin, /lib or /lib64: a link into /usr on merged systems, else a folder."""
    if os.path.islink(path):
        return ["--symlink", os.readlink(path).lstrip("/"), path]
    return ["--ro-bind", path, path] if os.path.isdir(path) else []
