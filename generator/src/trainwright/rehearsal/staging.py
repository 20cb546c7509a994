"""Turns a cluster's pods into processes of this machine, and puts every difference into words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from trainwright.datatypes.frozen import dataclass
from trainwright.findings.credentials import named
from trainwright.objects.pods import command as commands
from trainwright.objects.pods import rank_prediction
from trainwright.objects.pods.code import NAME as CODE
from trainwright.objects.pods.command import RUNTIME
from trainwright.objects.pods.pod import Configs, EnvVar, Pod, Workload, expand
from trainwright.objects.pods.template import RUN_KEY
from trainwright.rehearsal import RehearsalError, packages, probes
from trainwright.rehearsal.names import LOOPBACK, Names
from trainwright.rehearsal.probes import Probe
from trainwright.rehearsal.volumes import StagedFile, Volumes

MARK = "TRAINWRIGHT_REHEARSAL"  # in the env of every process, however far it strays
REPORTS = "TRAINWRIGHT_REPORT_DIR"
COORDINATOR = "TRAINWRIGHT_COORDINATOR_PORT"  # another one in every rehearsal on this machine
# What launchers are modules of.
_MODULES: Mapping[str, str] = {
    "torchrun": "torch",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "ray": "ray",
}
# Ray starts as many idle workers as all pods have CPUs, which are more than this machine's.
_OF_LAUNCHER: Mapping[str, Mapping[str, str]] = {"ray": {"RAY_prestart_worker_first_driver": "0"}}
_SHORTEST_SECRET = 4  # characters; hiding shorter ones would only garble the output

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """This machine, which takes the place of a cluster.

    `code` replaces the image's folder with the code. `mounted_code` has the folders that replace
    mounted code, by the role whose pods mount it. `packages` are folders of the repository at
    `root`, by the module that is in them. `inherited` is the part of the caller's env that
    processes get, `given` what the command line adds. `token` is unique to this rehearsal.
    `free_ports` returns the first of so many consecutive free ports.
    """

    python: str
    code: Path
    code_given: bool
    root: Path
    work: Path
    volumes: Path
    inherited: Mapping[str, str]
    given: Mapping[str, str]
    hostname: str  # of this machine, if it leads to itself; else its loopback address
    loopback: str  # name of the network interface
    cores: int
    token: str
    free_ports: Callable[[int], int]
    is_free: Callable[[int], bool]
    which: Callable[[str], str | None]
    packages: Mapping[str, Path] = field(default_factory=dict)
    mounted_code: Mapping[str, Path] = field(default_factory=dict)

    def of(self, role: str) -> Machine:
        """Return the machine with the code that the pods of a role have."""
        return replace(self, code=self.mounted_code.get(role, self.code))


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalProcess:
    """One process to start in a folder, with a session of its own, for a pod.

    `probe` tells when it is ready, and is None if it is ready at once.
    """

    pod: str
    label: str  # the pod's name; where an agent starts several, also the local rank
    argv: tuple[str, ...]
    env: Mapping[str, str]
    grace_period: int  # seconds between SIGTERM and SIGKILL
    folder: Path
    probe: Probe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """Everything that has to be created and started, and what people should know about it."""

    processes: tuple[LocalProcess, ...]
    folders: tuple[Path, ...]
    files: Mapping[Path, StagedFile] = field(default_factory=dict)
    modules: tuple[str, ...] = ()  # that the interpreter has to find
    secrets: tuple[str, ...] = ()  # texts to keep out of all output
    notes: tuple[str, ...] = ()


def stage(
    workload: Workload,
    configs: Configs,
    machine: Machine,
    extra: tuple[str, ...] = (),
) -> Staging:
    """Translate all pods; `configs` are files by ConfigMap and key, `extra` is added to the argv of
    the pods that train.

    Raise RehearsalError for code that is not on this machine.
    """
    pods = workload.pods
    foreseen = rank_prediction.predict(workload.training)
    block = max(Counter(process.pod for process in foreseen).values(), default=1)
    names = Names(pods, machine.hostname, lambda: machine.free_ports(block), workload.serving)
    stand_ins = {(role, CODE): folder for role, folder in machine.mounted_code.items()}
    volumes = Volumes(machine.volumes, pods, configs, stand_ins, machine.work / "files")
    # OpenMP threads are limited so that all processes together use no more cores than there are.
    threads = max(1, machine.cores // max(1, len(foreseen)))
    shared = {
        "OMP_NUM_THREADS": str(threads),
        COORDINATOR: str(machine.free_ports(1)),
        RUN_KEY: machine.token,
    }
    _keep_ports(workload, names, machine)
    added = {pod.name: extra for pod in workload.training}
    staged = [
        _Staged(pod, names, volumes, machine.of(pod.role), added.get(pod.name, ())) for pod in pods
    ]
    processes = tuple(process for staged_pod in staged for process in staged_pod.processes(shared))
    return Staging(
        processes=processes,
        folders=(
            *volumes.folders,
            *(report_folder(machine.work, pod) for pod in pods),
        ),
        files=volumes.files,
        modules=_distinct(module for staged_pod in staged for module in staged_pod.modules()),
        secrets=_distinct(_secrets(pods, machine.given)),
        notes=(
            *_distinct(note for staged_pod in staged for note in staged_pod.notes()),
            *(f"code: {name} is imported from {at}" for name, at in machine.packages.items()),
            *names.notes(),
            *volumes.notes(),
        ),
    )


def _keep_ports(workload: Workload, names: Names, machine: Machine) -> None:
    """Keep ports on which programs listen by default. Raise RehearsalError if one is taken."""
    kept: set[int] = set()
    for role in workload.serving:
        pods = workload.of_role(role)
        for pod in pods:
            alone = Names((pod,), machine.hostname, lambda: 0, (role,))
            told = alone.listening(pod, *pod.resolve(machine.given))
            for port in {port.number for port in pod.ports} - told:
                if len(pods) > 1 or port in kept or not machine.is_free(port):
                    raise _taken(role, len(pods), port)
                kept.add(port)
                names.keep(pod, port)


def _taken(role: str, pods: int, port: int) -> RehearsalError:
    if pods > 1:
        what = f"each of the {pods} pods of role {role} listens at port {port}, and here each needs"
    else:
        what = f"role {role} listens at port {port}, which is taken on this machine: it needs"
    return RehearsalError(
        f"{what} another one: pass it on with --port=${{{{ roles.{role}.port }}}}, or by another "
        "option or variable whose name ends with PORT"
    )


def report_folder(work: Path, pod: Pod) -> Path:
    """Return the folder in which a pod's processes report their ranks: each pod has its own."""
    return work / "reports" / pod.name


def _distinct(items: Iterable[_Item]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys(items))


def _secrets(pods: Sequence[Pod], given: Mapping[str, str]) -> Iterator[str]:
    """Yield values from the command line that git lacks or that have names like credentials."""
    private = {variable.name for pod in pods for variable in pod.unresolved}
    for name, value in given.items():
        if len(value) >= _SHORTEST_SECRET and (name in private or named(name, value)):
            yield value


class _Staged:
    """One pod while it is turned into processes."""

    def __init__(
        self, pod: Pod, names: Names, volumes: Volumes, machine: Machine, extra: tuple[str, ...]
    ):
        self._pod = pod
        self._names = names
        self._volumes = volumes
        self._machine = machine
        self._notes: list[str] = []
        argv, self._env = pod.resolve(machine.given)
        if pod.starts_image:
            raise RehearsalError(
                f"{pod.name} starts what its image starts (entrypoint.image), and images are not "
                "run here; name the program instead: entrypoint.script, module or argv"
            )
        self._command = commands.parse(argv)
        self._argv = self._localised((*argv, *extra))

    def _folder(self) -> Path:
        """Return the working directory of processes: the code's folder, or one below it."""
        working_dir = str(self._pod.rest.get("container", {}).get("workingDir", ""))
        here = self._volumes.path(self._pod, working_dir)
        mounted = self._pod.role in self._machine.mounted_code
        return Path(here) if mounted and here != working_dir else self._machine.code

    def processes(self, shared: Mapping[str, str]) -> Iterator[LocalProcess]:
        """Yield the processes of the pod: one, or as many as the operator's agent starts.

        `shared` are variables that the processes of all pods get here.
        """
        if not self._pod.agent:
            yield self._process(self._pod.name, {}, shared)
        for local, variables in enumerate(self._pod.agent):
            added = {variable.name: variable.value for variable in variables}
            yield self._process(f"{self._pod.name}/{local}", added, shared)

    def _process(
        self, label: str, added: Mapping[str, str], shared: Mapping[str, str]
    ) -> LocalProcess:
        machine = self._machine
        env = self._names.env(self._pod, {**self._env, **added})
        env = {name: self._volumes.path(self._pod, value) for name, value in env.items()}
        hostname = self._names.hostname(self._pod, self._env)
        path = [
            *_distinct(map(str, (machine.code, *machine.packages.values()))),
            env.get("PYTHONPATH"),
            machine.inherited.get("PYTHONPATH"),
        ]
        return LocalProcess(
            pod=self._pod.name,
            label=label,
            argv=self._argv,
            env={
                **machine.inherited,
                "HOSTNAME": hostname,
                "PYTHONUNBUFFERED": "1",
                **shared,
                **env,
                **machine.given,
                "PATH": f"{Path(machine.python).parent}:{machine.inherited.get('PATH', '')}",
                "PYTHONPATH": ":".join(part for part in path if part),
                "CUDA_VISIBLE_DEVICES": "",  # gloo on CPU, whatever else this machine has
                "GLOO_SOCKET_IFNAME": machine.loopback,
                "PET_LOCAL_ADDR": LOOPBACK,  # torchrun's agents: this host's name may not resolve
                MARK: f"{machine.token}:{label}",
                REPORTS: str(report_folder(machine.work, self._pod)),
                **_OF_LAUNCHER.get(self._command.launcher, {}),
            },
            grace_period=self._pod.grace_period,
            folder=self._folder(),
            probe=probes.of(
                self._pod, partial(self._names.port, self._pod.hostname), self._probing
            ),
        )

    def _probing(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command of a probe here, in which the kubelet replaces $(VAR) as in argv."""
        expanded = tuple(expand(word, self._env) for word in command)
        words = self._names.probe(self._pod, expanded, self._env)
        rest = (self._volumes.path(self._pod, word) for word in words[1:])
        return (*self._starter(command[0]), *rest)

    # --- the command line ------------------------------------------------------------------------

    def _localised(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        words = list(map(commands.without_devices, self._names.argv(self._pod, argv, self._env)))
        position = self._command.program
        if position is not None and not self._command.is_module:
            words[position] = self._script(argv[position])
        for index, word in enumerate(words):
            if index != position:
                words[index] = self._volumes.path(self._pod, word)
        return (*self._starter(argv[0]), *words[1:])

    def _starter(self, word: str) -> tuple[str, ...]:
        if commands.is_python(word):
            return (self._machine.python,)
        if commands.is_torchrun(word):
            return (self._machine.python, "-m", "torch.distributed.run")
        program = self._machine.which(word)
        if program is None:
            raise RehearsalError(
                f"{self._pod.name} starts {word}, which is not on this machine's PATH; "
                "install it here, or rehearse with another entrypoint"
            )
        return (program,)

    def _script(self, script: str) -> str:
        """Return the script here: on a mapped volume, below the code's folder, or at the same path.

        Raise RehearsalError if it is in none of these places.
        """
        local = self._volumes.path(self._pod, script)
        if local != script:
            if Path(local) not in self._volumes.files and not Path(local).is_file():
                raise RehearsalError(
                    f"{script} is on a volume, and {local} does not exist; put the file there, or "
                    "name a folder that holds it with --volumes DIR"
                )
            return local
        for candidate in self._candidates(script):
            if candidate.is_file():
                if str(candidate) != script:
                    self._notes.append(f"code: {script} of the image is {candidate}")
                return str(candidate)
        raise RehearsalError(self._missing(script))

    def _candidates(self, script: str) -> Iterator[Path]:
        """Yield with --code the image's path, then ever shorter ends of it, below that folder."""
        code, path = self._machine.code, Path(script)
        if not path.is_absolute():
            yield code / path
            return
        if self._machine.code_given:
            parts = path.parts[1:]
            for start in range(len(parts)):
                yield code.joinpath(*parts[start:])
        else:
            yield path

    def _missing(self, script: str) -> str:
        code = self._machine.code
        if self._machine.code_given:
            return f"{script} of the image was not found in {code}, given with --code"
        root = self._root_of(script)
        if Path(script).is_absolute():
            return (
                f"{script} is in the image, and this machine has no such file; name the folder "
                f"that holds the code with --code {root}"
            )
        return f"{code / script} does not exist; name the folder that holds it with --code {root}"

    def _root_of(self, script: str) -> str:
        """Return the only folder of the repository with the script, or the placeholder "DIR"."""
        parts = Path(script).parts[Path(script).is_absolute() :]
        for start in range(len(parts)):
            folders = packages.with_file(self._machine.root, "/".join(parts[start:]))
            if folders:
                return str(folders[0]) if len(folders) == 1 else "DIR"
        return "DIR"

    def modules(self) -> Iterator[str]:
        """Yield the modules that the interpreter must be able to import before anything starts."""
        command = self._command
        if command.launcher in _MODULES:
            yield _MODULES[command.launcher]
        if command.launcher in ("trainwright", "ray"):
            yield RUNTIME[-1]
        if command.is_module and command.program is not None:
            yield self._pod.argv[command.program]

    # --- what differs ----------------------------------------------------------------------------

    def notes(self) -> Iterator[str]:
        """Yield in what the processes of a pod are not as they would be in the cluster."""
        pod = self._pod
        if pod.image:
            yield f"image: {pod.image} is not used, but {self._machine.python}"
        yield from self._notes
        yield from self._not_run()
        if pod.agent:
            yield "agent: the Lattice agent is not installed; its part is done here, once"
        for variable in pod.unresolved:
            yield from self._unresolved(variable)
        for name in sorted(set(self._machine.given) & {v.name for v in pod.declared}):
            if name not in {v.name for v in pod.unresolved}:
                yield f"env: {name} as given here, not as in the manifest"
        limits = pod.resources.get("limits") or pod.resources.get("requests") or {}
        if limits:
            amounts = ", ".join(f"{name} {amount}" for name, amount in limits.items())
            yield f"resources: {amounts} per pod, neither reserved nor enforced"

    def _not_run(self) -> Iterator[str]:
        pod = self._pod
        for container in (*pod.before, *pod.added):
            if container.name != CODE or pod.role not in self._machine.mounted_code:
                what = "sidecar" if container.sidecar else "init container"
                yield f"{what}: {container.name} ({container.image}) is not run"
        for other in pod.beside:
            yield f"container: {other.name} ({other.image}) is not run"

    def _unresolved(self, variable: EnvVar) -> Iterator[str]:
        if variable.name in self._machine.given:
            yield f"env: {variable.name} as given here, on the cluster {variable.source}"
        elif not (self._pod.agent and variable.name.startswith("LATTICE_")):
            yield (
                f"env: {variable.name} is not set, on the cluster {variable.source}; "
                f"give it with --variable {variable.name}"
            )
