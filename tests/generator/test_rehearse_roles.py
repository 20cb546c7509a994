"""Rehearsals of jobs with roles: real servers and ranks, of which any may end at any time."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest
from click.testing import Result

from repository import Repository
from trainwright.objects.pods.pod import Pod, Port, Restart
from trainwright.rehearsal import processes, session, staging
from trainwright.rehearsal.names import Names

ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
targets: {jobset: {version: "0.12"}}
pools: {l4: {resource: nvidia.com/gpu, gpusPerNode: 4}}
defaults:
  target: jobset
  image: {repository: registry.example.com/ml/train, tag: "1.0"}
  resources: {cpu: "1", memory: 1Gi}
"""
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: grpo
launcher: python
entrypoint: {script: train.py}
flags: {servers: "${{ roles.rollout.urls }}", judge_host: "${{ roles.judge.hosts }}",
        judge_port: "${{ roles.judge.port }}"}
nodes: 2
maxDuration: 1h
roles:
  rollout:
    nodes: 2
    entrypoint: {script: serve.py}
    flags: {port: "${{ roles.rollout.port }}"}
    port: 8000
    ready: {path: /health, within: 60s}
  judge:
    entrypoint: {script: serve.py}
    env: {PORT: "${{ roles.judge.port }}"}
    port: 8000
    ready: {command: [python, probe.py, "${{ roles.judge.url }}/health"], within: 60s}
"""
SERVE = """\
import http.server, os, pathlib, sys, time
name = "-".join(os.environ["HOSTNAME"].split("-")[2:])
pathlib.Path(f"{name}.starting").write_text(str(os.getpid()))
pathlib.Path(f"{name}.starting").rename(f"{name}.started")
while pathlib.Path(f"{name}.wait").exists():
    time.sleep(0.02)
told = [word.removeprefix("--port=") for word in sys.argv if word.startswith("--port=")]

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(name.encode())

    def log_message(self, *_):
        pass

port = int((told or [os.environ.get("PORT", "PORT_OF_IMAGE")])[0])
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
TRAIN = """\
import os, pathlib, sys, time, urllib.request
flags = dict(word[2:].split("=", 1) for word in sys.argv[1:])
urls = [*flags["servers"].split(","), f"http://{flags['judge_host']}:{flags['judge_port']}"]
name = f"node-0-{os.environ['JOB_COMPLETION_INDEX']}"
pathlib.Path(f"{name}.starting").write_text(str(os.getpid()))
pathlib.Path(f"{name}.starting").rename(f"{name}.started")
for step in range(5):
    answers = [urllib.request.urlopen(url, timeout=30).read().decode() for url in urls]
    pathlib.Path(f"step-{step}").touch()
    time.sleep(0.05)
print("trained with", *answers, flush=True)
"""
PROBE = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)\n"


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the scripts, which is also the current one and the repository."""
    repository = Repository(tmp_path)
    repository.write("dev/environment.yaml", ENVIRONMENT)
    repository.write("dev/jobs/grpo.yaml", JOB)
    for name, text in (("serve.py", SERVE), ("train.py", TRAIN), ("probe.py", PROBE)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _edited(code: Path, *edits: tuple[str, str]) -> None:
    path = code / "environments/dev/jobs/grpo.yaml"
    text = path.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    path.write_text(text)


def _target(code: Path, target: str) -> None:
    """Have the job on another target, its programs with the names that hosts have there."""
    path = code / "environments/dev/environment.yaml"
    version = {"jobset": '{version: "0.12"}', "trainjob": '{version: "2.3"}', "compose": "{}"}
    text = path.read_text().replace('jobset: {version: "0.12"}', f"{target}: {version[target]}")
    path.write_text(f"{text.replace('target: jobset', f'target: {target}')}podSecurity: baseline\n")
    if target == "compose":
        _edited(code, ("nodes: 2\nmaxDuration: 1h\n", ""))
        (code / "serve.py").write_text(SERVE.replace('split("-")[2:]', 'split("-")'))
        (code / "train.py").write_text(
            TRAIN.replace("f\"node-0-{os.environ['JOB_COMPLETION_INDEX']}\"", '"train"')
        )


def _run(code: Path, *arguments: str) -> Result:
    done = Repository(code).run("rehearse", "dev/grpo", *arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return done


def _last(done: Result) -> str:
    return re.sub(r"grpo-[0-9a-f]{8}-", "", done.stderr.splitlines()[-1])


# --- how they meet -------------------------------------------------------------------------------


def test_what_trains_starts_once_all_serve_and_ends_them(code: Path) -> None:
    done = _run(code)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("trained with rollout-0-0 rollout-0-1 judge-0-0") == 2
    lines = re.sub(r"grpo-[0-9a-f]{8}-", "", done.stderr).splitlines()
    ready = {line.removeprefix("trainwright: ") for line in lines if line.endswith(" is ready")}
    assert ready == {f"{pod} is ready" for pod in ("rollout-0-0", "rollout-0-1", "judge-0-0")}
    assert any("the job has succeeded: stopping 3 more" in line for line in lines)
    assert _last(done) == "trainwright: dev/grpo succeeded"


def test_the_table_and_the_commands_name_the_roles(code: Path) -> None:
    done = _run(code, "--dry-run")
    lines = [line.split() for line in done.stderr.splitlines()]
    assert [words[1:] for words in lines if words and words[0].startswith("grpo-")] == [
        ["none:", "role", "judge"],
        ["none:", "role", "rollout"],
        ["none:", "role", "rollout"],
        ["0", "2"],
        ["1", "2"],
    ]
    assert "$ python -u serve.py --port=8000  # role rollout" in done.stderr


def test_arguments_of_the_command_line_are_for_what_trains(code: Path) -> None:
    (code / "serve.py").write_text(
        SERVE.replace("import", "print(*__import__('sys').argv); import")
    )
    done = _run(code, "--", "--steps=5")
    assert done.exit_code == 0, done.output
    assert "--steps" not in done.stdout


def test_a_role_may_have_fewer_nodes_here(code: Path) -> None:
    done = _run(code, "--nodes", "1", "--nodes", "rollout=1")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("trained with rollout-0-0 judge-0-0") == 1
    assert "nodes of rollout: 1 instead of 2" in done.stderr
    refused = _run(code, "--nodes", "rolout=1")
    assert refused.exit_code == 2
    assert "--nodes rolout=1: dev/grpo has the roles judge, rollout" in refused.stderr
    assert _run(code, "--nodes", "rollout=x").exit_code == 2


@pytest.mark.parametrize("told", [False, True])
def test_a_program_that_is_not_told_its_port_listens_at_its_own(told: bool, code: Path) -> None:
    own = session._free_ports(1, set())
    (code / "serve.py").write_text(SERVE.replace("PORT_OF_IMAGE", str(own)))
    port = ("port: 8000\n    ready: {command", f"port: {own}\n    ready: {{command")
    _edited(code, port, *([] if told else [('    env: {PORT: "${{ roles.judge.port }}"}\n', "")]))
    done = _run(code)
    assert done.exit_code == 0, done.output
    address = re.search(rf"judge-0-0\.grpo-\w+:{own} is 127.0.0.1:(\d+)", done.stderr)
    assert address
    assert (int(address[1]) == own) != told


def test_two_pods_cannot_listen_at_one_port(code: Path) -> None:
    _edited(code, ('    flags: {port: "${{ roles.rollout.port }}"}\n', ""))
    done = _run(code)
    assert done.exit_code == 2
    assert (
        "trainwright: each of the 2 pods of role rollout listens at port 8000, and here each needs "
        "another one: pass it on with --port=${{ roles.rollout.port }}" in done.stderr
    )


@pytest.mark.parametrize(
    "argv",
    [
        ("--port=8000",),
        ("--server.port", "8000"),
        ("--bind", "0.0.0.0:8000"),
        ("-b", ":8000"),
        ("8000",),
    ],
)
def test_a_role_has_its_port_in_any_form(argv: tuple[str, ...]) -> None:
    judge = _pod("judge", (Port("serving", 8000),))
    names = Names((judge,), "here", lambda: 9001, ("judge",))
    *rest, last = names.argv(judge, ("serve", "--max-tokens", "8000", *argv), {"HOST": "0.0.0.0"})
    assert last.endswith("9001")
    assert rest[:3] == ["serve", "--max-tokens", "8000"]
    assert names.env(judge, {"HOST": "0.0.0.0", "PORT": "8000"})["PORT"] == "9001"


def _pod(role: str, ports: tuple[Port, ...]) -> Pod:
    return Pod(
        name=f"g-{role}-0-0",
        hostname=f"g-{role}-0-0.g",
        role=role,
        index=0,
        image="i",
        command=(),
        declared=(),
        restart=Restart(limit=0),
        ports=ports,
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [("VLLM_SERVER_PORT", "9001"), ("OTHER_PORT", "8000"), ("JUDGE_PORT", "9001")],
)
def test_a_port_belongs_to_the_host_beside_it(name: str, expected: str) -> None:
    trainer, judge = _pod("node", ()), _pod("judge", (Port("serving", 8000),))
    names = Names((trainer, judge), "here", lambda: 9001)
    hosts = {"VLLM_SERVER_HOST": judge.hostname, "JUDGE_ADDR": judge.hostname}
    assert names.env(trainer, {**hosts, name: "8000"})[name] == expected


def test_a_role_of_a_compose_file_is_found_by_its_own_name_too() -> None:
    trainer = _pod("train", ())
    judge = replace(_pod("judge", (Port("", 8000),)), hostname="judge-0", aliases=("judge",))
    names = Names((trainer, judge), "here", lambda: 9001)
    words = ("a.py", "--log=judge", "--judge_host=judge", "--judge_port=8000", "http://judge:8000")
    assert names.argv(trainer, words, {}) == (
        "a.py",
        "--log=judge",
        "--judge_host=127.0.0.1",
        "--judge_port=9001",
        "http://127.0.0.1:9001",
    )


def test_one_port_of_several_hosts_is_refused(code: Path) -> None:
    flags = ('servers: "${{ roles.rollout.urls }}"', 'rollout_hosts: "${{ roles.rollout.hosts }}"')
    port = ('judge_port: "${{ roles.judge.port }}"', 'rollout_port: "${{ roles.rollout.port }}"')
    _edited(code, flags, port)
    done = _run(code)
    assert done.exit_code == 2
    assert "ROLLOUT_PORT is 8000 for " in done.stderr
    assert "use ${{ roles.NAME.urls }} instead of hosts and a port" in done.stderr


# --- how they fail -------------------------------------------------------------------------------


def test_a_role_that_is_never_ready_is_named_with_what_its_probe_found(code: Path) -> None:
    _edited(code, ("/health, within: 60s", "/missing, within: 5s"))
    (code / "serve.py").write_text(
        SERVE.replace("(200)", "(503 if 'missing' in self.path else 200)")
    )
    done = _run(code)
    assert done.exit_code == 1
    assert re.fullmatch(
        r"trainwright: dev/grpo failed: rollout-0-\d \(role rollout, pod \d\) was not ready in "
        r"time: GET http://127.0.0.1:\d+/missing: HTTP 503",
        _last(done),
    )
    assert "trained with" not in done.stdout


@pytest.mark.parametrize("code_of_exit", [0, 3])
def test_a_role_that_ends_before_it_is_ready_is_the_cause(code_of_exit: int, code: Path) -> None:
    end = f"if name == 'judge-0-0': sys.exit({code_of_exit})\ntold ="
    (code / "serve.py").write_text(SERVE.replace("told =", end))
    done = _run(code)
    assert done.exit_code == (code_of_exit or 1)
    who = "trainwright: dev/grpo failed: judge-0-0 (role judge, pod 0) ended with exit code"
    assert _last(done).startswith(f"{who} {code_of_exit} before it was ready, ")


END_WITHOUT = TRAIN.replace("print(", "pathlib.Path('end').touch(); time.sleep(PAUSE)\nprint(")
END_BY_ITSELF = """\
import threading
def end():
    while not pathlib.Path("end").exists():
        time.sleep(0.02)
    os._exit(0)
if name == "judge-0-0":
    threading.Thread(target=end).start()
told ="""


def test_a_job_may_tell_a_role_to_end_and_ends_itself(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_LINGER", 120.0)
    (code / "serve.py").write_text(SERVE.replace("told =", END_BY_ITSELF))
    (code / "train.py").write_text(END_WITHOUT.replace("PAUSE", "0.5"))
    done = _run(code, "--nodes", "1")
    assert done.exit_code == 0, done.output
    assert "judge-0-0 ended with exit code 0, before the job" in done.stderr


def test_a_job_that_waits_for_a_role_that_has_ended_does_not_hang(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_LINGER", 0.2)
    (code / "serve.py").write_text(SERVE.replace("told =", END_BY_ITSELF))
    (code / "train.py").write_text(END_WITHOUT.replace("PAUSE", "3600"))
    done = _run(code, "--nodes", "1")
    assert done.exit_code == 1
    assert _last(done) == (
        "trainwright: dev/grpo failed: judge-0-0 (role judge, pod 0) ended with exit code 0, "
        "and nothing starts it again on the cluster either"
    )


def test_a_role_that_does_not_serve_may_end_when_it_is_done(code: Path) -> None:
    _edited(code, ("roles:\n", "roles:\n  fetch: {entrypoint: {script: fetch.py}}\n"))
    (code / "fetch.py").write_text("print('fetched')")
    done = _run(code)
    assert done.exit_code == 0, done.output
    assert "| fetched" in done.stdout


def test_a_program_that_is_not_here_is_said_before_anything_starts(code: Path) -> None:
    _edited(code, ("[python, probe.py,", "[no-such-probe,"))
    done = _run(code)
    assert done.exit_code == 2
    assert "judge-0-0 starts no-such-probe, which is not on this machine's PATH" in done.stderr


ROLES = ("rollout-0-0", "rollout-0-1", "judge-0-0")
RANKS = ("node-0-0", "node-0-1")
FAILED = re.compile(
    r"trainwright: dev/grpo failed: "
    r"(?P<pod>(rollout|judge|node)-\d-\d|train-1) "
    r"\((role (rollout|judge), pod \d|rank \d)\) "
    r"ended with exit code (?P<code>\d+)( \((?P<signal>SIG\w+)\))?(?P<early> before it was ready)?, "
)


@contextmanager
def _killing(code: Path, pod: str, number: int, moment: str, pause: float = 0) -> Iterator[None]:
    """Send a signal to a pod's process some time after a file is there."""
    over = Event()

    def kill() -> None:
        while not ((code / moment).exists() and (code / f"{pod}.started").exists()):
            if over.wait(0.01):
                return
        time.sleep(pause)
        with suppress(ProcessLookupError):
            os.kill(int((code / f"{pod}.started").read_text()), number)
        (code / f"{pod}.wait").unlink(missing_ok=True)

    killer = Thread(target=kill)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join()


def _leaves_nothing(code: Path) -> None:
    running = [p.pid for p in psutil.process_iter() if p.pid != os.getpid() and _is_in(p, code)]
    assert not running


def _is_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return bool(process.cwd() == str(folder))
    except psutil.Error:
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_role_that_is_killed_before_it_is_ready_is_the_cause(
    number: signal.Signals, code: Path
) -> None:
    (code / "rollout-0-1.wait").touch()
    with _killing(code, "rollout-0-1", number, "judge-0-0.started"):
        done = _run(code)
    failed = FAILED.match(_last(done))
    assert failed, done.output
    assert (failed["pod"], failed["signal"]) == ("rollout-0-1", number.name)
    assert failed["early"]
    assert done.exit_code == 128 + number
    assert "trained with" not in done.stdout
    _leaves_nothing(code)


@pytest.mark.parametrize("pod", ["judge-0-0", "node-0-1"])
def test_the_one_that_is_killed_while_they_train_is_the_cause(pod: str, code: Path) -> None:
    (code / "train.py").write_text(TRAIN.replace("range(5)", "range(10_000)"))
    with _killing(code, pod, signal.SIGKILL, "step-2"):
        done = _run(code)
    failed = FAILED.match(_last(done))
    assert failed, done.output
    assert (failed["pod"], failed["signal"], failed["early"]) == (pod, "SIGKILL", None)
    assert done.exit_code == 137
    _leaves_nothing(code)


def test_what_a_signal_killed_is_to_blame_though_its_end_is_seen_last(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine its peers, which lost their server, may be seen to end before it."""
    (code / "train.py").write_text(TRAIN.replace("range(5)", "range(10_000)"))
    wait = processes._Child.wait

    def see_late(self: processes._Child) -> int:
        code = wait(self)
        if code == -signal.SIGKILL and signal.SIGKILL not in self.sent:
            time.sleep(0.5)
            self.ended_at += 0.9
        return code

    monkeypatch.setattr(processes._Child, "wait", see_late)
    with _killing(code, "judge-0-0", signal.SIGKILL, "step-2"):
        done = _run(code)
    failed = FAILED.match(_last(done))
    assert failed, done.output
    assert (failed["pod"], failed["signal"]) == ("judge-0-0", "SIGKILL"), done.output
    _leaves_nothing(code)


# Hosts of each target, and the pods of them.
_GROUPS = {name: name for name in (*ROLES, *RANKS)}
_SERVICES = {
    "rollout-0": "rollout-0-1",
    "rollout-1": "rollout-1-1",
    "judge-0": "judge-0-1",
    "train": "train-1",
}
ON = {"jobset": _GROUPS, "trainjob": _GROUPS, "compose": _SERVICES}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("target", ON)
def test_a_signal_at_any_time_ends_in_success_or_in_one_cause(
    target: str, seed: int, code: Path
) -> None:
    _target(code, target)
    choose = random.Random(seed)
    judge = next(host for host in ON[target] if host.startswith("judge"))
    moment = (f"{judge}.started", "step-0", "step-2", "step-4")[seed % 4]
    serving = [host for host in ON[target] if host.startswith(("judge", "rollout"))]
    host = choose.choice(serving if moment.startswith("judge") else [*ON[target]])
    number = choose.choice([signal.SIGKILL, signal.SIGTERM])
    with _killing(code, host, number, moment, choose.uniform(0, 0.3)):
        done = _run(code)
    failed = FAILED.match(_last(done))
    assert (done.exit_code == 0) == (_last(done) == "trainwright: dev/grpo succeeded"), done.output
    if done.exit_code:
        assert failed, done.output
        assert (failed["pod"], failed["signal"]) == (ON[target][host], number.name), done.output
        assert done.exit_code == 128 + number
    _leaves_nothing(code)


def test_a_rehearsal_error_while_roles_run_ends_them(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What trains cannot be started: the servers do not stay behind."""
    started = processes._Child.__init__

    def refuse(self: processes._Child, process: staging.LocalProcess) -> None:
        if "node" in process.pod:
            raise OSError("no more processes")
        started(self, process)

    monkeypatch.setattr(processes._Child, "__init__", refuse)
    done = _run(code)
    assert done.exit_code == 2
    assert "cannot be started: no more processes" in done.stderr
    _leaves_nothing(code)


def test_the_command_of_a_probe_finds_its_pod_by_a_local_address(code: Path) -> None:
    _edited(code, ("${{ roles.judge.url }}/health", "http://localhost:8000/health"))
    done = _run(code)
    assert done.exit_code == 0, done.output
    assert "-judge-0-0 is ready" in done.output


def test_services_of_one_machine_are_started_as_groups_of_a_cluster_are(code: Path) -> None:
    """Docker probes from inside the container, at the port that each of them has there."""
    _target(code, "compose")
    done = _run(code)
    assert done.exit_code == 0, done.output
    assert {path.stem for path in code.glob("*.started")} == {
        "judge-0",
        "rollout-0",
        "rollout-1",
        "train",
    }
    assert "trained with rollout-0 rollout-1 judge-0" in done.output
    trained = done.output.index("trained with")
    for pod in ("judge-0-1", "rollout-0-1", "rollout-1-1"):
        assert -1 < done.output.index(f"-{pod} is ready") < trained
