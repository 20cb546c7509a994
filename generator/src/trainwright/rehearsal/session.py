"""One rehearsal from spec to exit code: the only module here that touches disk and sockets."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import field, replace
from pathlib import Path

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Code, Job
from trainwright.datatypes.layout import JobFile
from trainwright.files import filetree
from trainwright.kinds import operators
from trainwright.objects.pods import rank_prediction
from trainwright.objects.pods.pod import Configs, Pod, Workload
from trainwright.objects.pods.rank_prediction import Process
from trainwright.objects.pods.template import CHECKPOINT_DIR
from trainwright.rehearsal import (
    RehearsalError,
    checkout,
    packages,
    processes,
    rendering,
    reported,
    staging,
)
from trainwright.rehearsal.names import LOOPBACK
from trainwright.rehearsal.processes import Audience, Outcome
from trainwright.rehearsal.rendering import Rendering
from trainwright.rehearsal.reported import Comparison
from trainwright.rehearsal.staging import Machine, Staging
from trainwright.tasks.processors import processors

# What processes inherit of the caller's env. The rest is left out: a container has none of it, and
# what works only because of a variable of this shell would fail on the cluster.
_INHERITED = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "PYTHONPATH",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "USER",
)
_IMPORT_TIMEOUT = 120  # seconds to find modules, whose packages may import much
_FIND_MODULES = """\
import importlib.util, sys
def missing(name):
    try:
        return importlib.util.find_spec(name) is None
    except ModuleNotFoundError:
        return True
print(*filter(missing, sys.argv[1:]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalOptions:
    """The command-line options. A folder that is None is a temporary or the current one."""

    nodes: int | None = None
    nodes_of_roles: Mapping[str, int] = field(default_factory=dict)
    procs: int | None = None
    python: str | None = None
    code: Path | None = None
    here: Path = Path()  # the current folder of who asks
    volumes: Path | None = None
    keep: Path | None = None
    env: tuple[str, ...] = ()  # NAME=VALUE, or NAME for the caller's own value
    extra: tuple[str, ...] = ()  # words to append to the command


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """A job that is ready to run here."""

    file: JobFile
    operator: str
    rendering: Rendering
    workload: Workload
    foreseen: tuple[Process, ...]
    staging: Staging
    work: Path
    extra: tuple[str, ...] = ()  # words behind the command of each pod that trains

    def processes_of(self, pod: Pod) -> tuple[Process, ...]:
        """Return the processes predicted in a pod."""
        return tuple(process for process in self.foreseen if process.pod == pod.name)

    def perform(self, audience: Audience) -> Outcome:
        """Run it to its end."""
        with filetree.writing(self.work):
            self._write()
        return processes.run(self.staging.processes, self.workload, audience)

    def _write(self) -> None:
        for folder in self.staging.folders:
            folder.mkdir(parents=True, exist_ok=True)
        for path, file in self.staging.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)  # of an earlier rehearsal, and perhaps read only
            path.write_bytes(file.raw)
            if file.mode is not None:
                path.chmod(file.mode)
        for stale in (self.work / "reports").glob("*/*.json"):
            stale.unlink()

    def compare(self) -> Comparison:
        """Compare the ranks that the processes reported with the predicted ones."""
        return reported.compare(self.workload.pods, self.foreseen, self.work)

    def saved_nothing(self) -> bool:
        """Return whether the job has a checkpoint folder, and no file is in it."""
        named = {process.env.get(CHECKPOINT_DIR, "") for process in self.staging.processes}
        folders = [Path(folder) for folder in named if folder.startswith("/")]
        files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
        return bool(folders) and next(files, None) is None


def only(files: tuple[JobFile, ...], pattern: str) -> JobFile:
    """Return the one job that was selected. Raise RehearsalError if there is not exactly one."""
    if len(files) != 1:
        raise RehearsalError(
            f'"{pattern}" selects {len(files)} jobs, and one is rehearsed at a time'
        )
    return files[0]


@contextmanager
def prepare(root: Path, file: JobFile, options: RehearsalOptions) -> Iterator[Rehearsal]:
    """Yield a rehearsal that is ready to start; its temporary folders are removed afterwards.

    Raise RehearsalError if this machine cannot run it.
    """
    if not processes.POSSIBLE:
        raise RehearsalError(
            "a rehearsal needs POSIX process groups, which this system does not have; "
            "on Windows, run it in WSL"
        )
    rendered = rendering.render(
        root,
        file,
        nodes=options.nodes,
        nodes_of_roles=options.nodes_of_roles,
        procs=options.procs,
    )
    operator, _ = operators.find(rendered.manifests)
    workload = operators.workload(rendered.manifests, rendered.size)
    with _work(options.keep) as work:
        machine = _with_code(rendered.job, workload, _machine(root, options, work))
        staged = _staged(workload, operators.configs(rendered.manifests), machine, options)
        yield Rehearsal(
            file=file,
            operator=operator.name,
            rendering=rendered,
            workload=workload,
            foreseen=rank_prediction.predict(workload.training),
            staging=staged,
            work=work,
            extra=options.extra,
        )


def _with_code(job: Job, workload: Workload, machine: Machine) -> Machine:
    """Return the machine with the code of the job and its roles, unless a folder is given."""
    trains = {pod.role for pod in workload.training}
    mounted: dict[str, Path] = {}
    checked_out: dict[Code, Path] = {}
    for group in job.groups:
        if group.code is None:
            continue
        if group.code not in checked_out:
            checked_out[group.code] = (
                machine.code
                if machine.code_given
                else checkout.folder(group.code, machine.root, machine.work)
            )
        roles = {group.role.name} if group.role else trains
        mounted |= dict.fromkeys(roles, checked_out[group.code])
    return replace(machine, mounted_code=mounted)


def _staged(
    workload: Workload,
    configs: Configs,
    machine: Machine,
    options: RehearsalOptions,
) -> Staging:
    """Return the job's processes, which find the modules of the image in the repository."""
    staged = staging.stage(workload, configs, machine, options.extra)
    if missing := _missing_modules(staged, machine):
        machine = replace(machine, packages=_packages(missing, machine))
        staged = staging.stage(workload, configs, machine, options.extra)
    return staged


@contextmanager
def _work(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        with filetree.writing(keep):
            keep.mkdir(parents=True, exist_ok=True)
        yield keep.absolute()
    else:
        # Processes that were killed in the middle of a write may still hold files.
        with tempfile.TemporaryDirectory(prefix="trainwright-", ignore_cleanup_errors=True) as made:
            yield Path(made)


def _machine(root: Path, options: RehearsalOptions, work: Path) -> Machine:
    python = _interpreter(options.python)
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    path = f"{Path(python).parent}{os.pathsep}{inherited.get('PATH', os.defpath)}"
    taken: set[int] = set()
    return Machine(
        python=python,
        code=(options.code or options.here).absolute(),
        code_given=options.code is not None,
        root=root,
        work=work,
        volumes=(options.volumes or work / "volumes").absolute(),
        inherited={**inherited, "PATH": path},
        given=dict(map(_given, options.env)),
        hostname=_own_name(),
        loopback=next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo"),
        cores=processors(),
        token=secrets.token_hex(8),
        free_ports=lambda count: _free_ports(count, taken),
        is_free=_is_free,
        which=lambda word: shutil.which(word, path=path),
    )


def _own_name() -> str:
    """Return this machine's name if it resolves to an address of this machine, else the address."""
    name = socket.gethostname()
    try:
        with closing(socket.socket()) as probe:
            probe.bind((name, 0))
    except OSError:
        return LOOPBACK
    return name


def _interpreter(written: str | None) -> str:
    program = shutil.which(written) if written else sys.executable
    if not program:
        raise RehearsalError(f"--python {written} is not a program on this machine")
    return str(Path(program).absolute())


def _given(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not name:
        raise RehearsalError(f'--variable is "{written}", expected NAME=VALUE or NAME')
    if not equals and name not in os.environ:
        raise RehearsalError(f"--variable {name}: the variable is not set here; write NAME=VALUE")
    return name, value if equals else os.environ[name]


# Nothing reserves a free port until the job uses it, and the system may assign the ports above
# these to any connection opened meanwhile: /proc/sys/net/ipv4/ip_local_port_range begins at 32768.
# https://docs.kernel.org/networking/ip-sysctl.html
_PORTS = range(10_000, 32_768)


def _free_ports(count: int, taken: set[int]) -> int:
    """Return the first of `count` free ports in a row. Raise RehearsalError if there are none."""
    for _ in range(1000):
        first = _PORTS[secrets.randbelow(len(_PORTS) - count)]
        wanted = set(range(first, first + count))
        if not wanted & taken and all(map(_is_free, sorted(wanted))):
            taken |= wanted
            return first
    raise RehearsalError(f"this machine has no {count} free ports in a row")


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError):
            return False
    return True


def _missing_modules(staged: Staging, machine: Machine) -> tuple[str, ...]:
    """Return the modules that the interpreter lacks, before N processes fail with a traceback."""
    if not staged.modules:
        return ()
    command = [machine.python, "-c", _FIND_MODULES, *staged.modules]
    paths = dict.fromkeys(process.env["PYTHONPATH"] for process in staged.processes)
    env = {**staged.processes[0].env, "PYTHONPATH": ":".join(paths)}
    try:
        done = subprocess.run(  # noqa: S603 - an argument list, and no shell
            command,
            cwd=machine.work,  # which has no modules
            env=env,
            capture_output=True,
            text=True,
            timeout=_IMPORT_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RehearsalError(f"{machine.python} could not be run: {error}") from error
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        raise RehearsalError(f"{' and '.join(staged.modules)} cannot be imported: {reason}")
    return tuple(done.stdout.split())


def _packages(missing: tuple[str, ...], machine: Machine) -> Mapping[str, Path]:
    """Return the folder of the repository that each module is in.

    Raise RehearsalError unless there is exactly one for each.
    """
    base = machine.code if machine.code_given else machine.root
    by_module = {module: packages.with_module(base, module) for module in missing}
    if nowhere := [module for module, folders in by_module.items() if not folders]:
        raise RehearsalError(
            f"{machine.python} finds no module {' or '.join(nowhere)}; install it there, choose "
            f"another interpreter with --python, or name the folder it is in with --code DIR "
            f"(now {machine.code})"
        )
    for module, folders in by_module.items():
        if len(folders) > 1:
            raise RehearsalError(
                f"{module} is in {len(folders)} folders of {base}; choose one: "
                + " or ".join(f"--code {folder}" for folder in folders)
            )
    return {module: folders[0] for module, folders in by_module.items()}
