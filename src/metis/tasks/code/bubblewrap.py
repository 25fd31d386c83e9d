"""bubblewrap's command line: a read-only system, no network, no devices, one private folder.

The root user is nobody inside, and outside a user that has no other process: the kernel counts no
processes of root's, and what it counts for a user, such as descriptors under way, is shared by all
of that user's sandboxes.
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
"""Users of the host that no system gives to anybody."""
PYTHON = "METIS_SANDBOX_PYTHON"
"""The variable that names another interpreter for programs."""
DEVICES = ("null", "full", "random", "urandom")
"""Without `zero`, whose shared mappings are memory that no process need show."""
SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives")
"""Files by which programs and libraries of /usr are looked up."""
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
    """There is no bubblewrap, or it does not hold here what it has to; no program is run then."""


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
            "bubblewrap is not installed, and programs are run in no other way: "
            f"{install_command()}"
        )
    return program


@dataclass(frozen=True)
class Interpreter:
    """A Python for programs, and the folders outside /usr that it needs."""

    path: str
    folders: tuple[str, ...]


@functools.cache
def interpreter() -> Interpreter:
    """This process's own Python, without its packages; the system's where that one lies in a folder
    that the sandbox's user cannot open."""
    named = os.environ.get(PYTHON)
    if named:
        if not reachable(Path(named)):
            raise SandboxMissing(f"{PYTHON} = {named!r}: no file that {_user()} can execute")
        return _described(named)
    own = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    if reachable(Path(own)) and reachable(Path(sys.base_prefix) / "lib"):
        return _with_folders(own, sys.base_prefix)
    system = os.path.realpath("/usr/bin/python3")
    if not reachable(Path(system)):
        raise SandboxMissing(
            f"{own!r} lies where {_user()} cannot execute it, and there is no /usr/bin/python3: "
            f"set {PYTHON} to a Python that everybody can execute"
        )
    return Interpreter(system, ())


def _described(path: str) -> Interpreter:
    asked = [path, "-I", "-S", "-c", "import sys; print(sys.base_prefix)"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxMissing(f"{PYTHON} = {path!r}: no Python ({error})") from error
    return _with_folders(os.path.realpath(path), answer.stdout.strip())


def _with_folders(path: str, prefix: str) -> Interpreter:
    if prefix in ("/usr", "/usr/local"):
        return Interpreter(path, ())
    parts = (os.path.join(prefix, name) for name in ("bin", "lib", "lib64"))
    return Interpreter(path, tuple(part for part in parts if os.path.isdir(part)))


def _user() -> str:
    return "nobody" if os.geteuid() == 0 else "this user"


def reachable(path: Path) -> bool:
    """True where the sandbox's user can open a file or folder."""
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
    """The user and group that a launch by root drops to; None where it is not root's.

    A container may not have all users; there it is nobody.
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
    """The options of a sandbox whose private folder holds `room` bytes.

    `files` are the descriptors of files that it has, by their paths there; `syscalls` is the
    descriptor of the filter.
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
    """Paths of the folders of packages in the sandbox."""
    return [f"/libraries/{number}" for number in range(count)]


def _system(path: str) -> list[str]:
    """A folder of the root that is a link into /usr on merged systems, and a folder on others."""
    if os.path.islink(path):
        return ["--symlink", os.readlink(path).lstrip("/"), path]
    return ["--ro-bind", path, path] if os.path.isdir(path) else []
