"""The image's Dockerfile: what can be checked without an engine, and its install steps run for real.

The steps run with the Dockerfile's own bytes: only the paths inside the image are mapped to
temporary folders. The base image is a virtual environment that sees this environment's torch.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from hashlib import sha256
from importlib import metadata
from pathlib import Path, PurePosixPath

import dockerfile
import pytest
from docker.utils.build import exclude_paths
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import trainwright_runtime
from continuous_integration import TAKES_ROOT
from trainwright.objects.pods.command import RUNTIME as COMMAND

ROOT = Path(__file__).parents[2]
CONTEXT = ROOT / "runtime"
DOCKERFILE = CONTEXT / "Dockerfile"
PROJECT = tomllib.loads((CONTEXT / "pyproject.toml").read_text())["project"]


# Reading the Dockerfile, with BuildKit's own parser.

COMMANDS: tuple[dockerfile.Command, ...] = dockerfile.parse_file(str(DOCKERFILE))


def _stages() -> list[list[dockerfile.Command]]:
    """The instructions of each stage, its FROM first."""
    stages: list[list[dockerfile.Command]] = []
    for command in COMMANDS:
        if command.cmd == "FROM":
            stages.append([])
        if stages:
            stages[-1].append(command)
    return stages


def _stage(name: str) -> list[dockerfile.Command]:
    (found,) = (s for s in _stages() if s[0].value[1:] == ("AS", name))
    return found


FINAL = _stages()[-1]


def _of(command: str, commands: object = COMMANDS) -> list[dockerfile.Command]:
    return [found for found in commands if found.cmd == command]  # type: ignore[attr-defined]


def _pairs(commands: list[dockerfile.Command]) -> dict[str, str]:
    """Names and values of ENV or LABEL instructions, which the parser gives by turns."""
    return {
        name: value.strip('"')
        for command in commands
        for name, value in zip(command.value[::2], command.value[1::2], strict=True)
    }


ARGUMENTS = {
    name: value
    for command in _of("ARG")
    for name, _, value in (word.partition("=") for word in command.value)
    if value
}


def _filled(text: str, values: Mapping[str, str] = ARGUMENTS) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda match: values[match[1]], text)


def _context_sources(commands: object = COMMANDS) -> dict[str, str]:
    """What COPY takes from the context, by the place in the image where it is."""
    found = {}
    for command in _of("COPY", commands):
        if command.flags:
            assert command.flags[0].startswith("--from="), "teach this function about it"
            continue
        *sources, target = command.value
        for source in sources:
            place = (
                PurePosixPath(target, PurePosixPath(source).name)
                if target.endswith("/")
                else target
            )
            found[str(place)] = source
    return found


def _let_through() -> set[PurePosixPath]:
    """The files of the context that .dockerignore lets through, by the rules of docker's client."""
    patterns = (CONTEXT / ".dockerignore").read_text().splitlines()
    paths = exclude_paths(str(CONTEXT), [p for p in patterns if p and not p.startswith("#")])
    # The client sends these two whatever is ignored; no instruction can name them by accident.
    return {PurePosixPath(p) for p in paths if (CONTEXT / p).is_file()} - {
        PurePosixPath("Dockerfile"),
        PurePosixPath(".dockerignore"),
    }


# What the file says.


def _hadolint(text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("hadolint"), "--failure-threshold=ignore", "-"],
        input=text, cwd=CONTEXT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_hadolint_has_nothing_to_say_and_nothing_is_hidden_from_it() -> None:
    text = DOCKERFILE.read_text()
    done = _hadolint(text)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    assert "hadolint ignore" not in text
    assert not [*ROOT.glob(".hadolint*"), *CONTEXT.glob(".hadolint*")]
    assert "DL3002" in _hadolint(text.replace("USER 1000:0", "USER root")).stdout


def test_what_the_build_takes_is_there_and_nothing_else_is_let_through() -> None:
    sources = {PurePosixPath(source) for source in _context_sources().values()}
    through = _let_through()
    for source in sources:
        assert (CONTEXT / source).exists(), source
        assert any(path.is_relative_to(source) for path in through), f"{source} is ignored"
    for path in through:
        assert any(path.is_relative_to(source) for source in sources), f"{path} is sent for nothing"


def test_byte_code_and_other_left_overs_stay_outside(tmp_path: Path) -> None:
    ignore = (CONTEXT / ".dockerignore").read_text().splitlines()
    for path in ("src/a/__pycache__/b.pyc", "src/a.egg-info/PKG-INFO", ".env", "notes.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "src/a/b.py").touch()
    paths = exclude_paths(str(tmp_path), [p for p in ignore if p and not p.startswith("#")])
    assert {p for p in paths if (tmp_path / p).is_file()} == {"src/a/b.py"}


def test_every_base_is_a_pinned_argument_or_a_stage() -> None:
    names = {stage[0].value[2] for stage in _stages() if len(stage[0].value) == 3}
    for command in _of("FROM"):
        base = command.value[0]
        if base in names:
            continue
        argument = re.fullmatch(r"\$\{(\w+)\}", base)
        assert argument, f"{base} is not an argument"
        name, _, tag = ARGUMENTS[argument[1]].partition(":")
        assert name, command.original
        assert re.match(r"\d+\.\d+\.\d+", tag), "a tag that moves is no pin"


def test_no_layer_depends_on_what_engines_forget_to_look_at() -> None:
    # https://github.com/containers/buildah/issues/6609
    for command in _of("RUN"):
        assert not [flag for flag in command.flags if "type=bind" in flag]


def test_nothing_is_fetched_but_by_pip() -> None:
    assert not _of("ADD")
    for command in _of("RUN"):
        assert not re.search(r"\b(curl|wget|git|apt-get|apk)\b", command.original)


def test_no_argument_or_variable_holds_a_secret() -> None:
    # The words by which BuildKit's own check knows them:
    # https://docs.docker.com/reference/build-checks/secrets-used-in-arg-or-env/
    secret = re.compile(
        r"(?i)(_|^)(apikey|auth|credentials?|key|password|pword|passwd|secret|token)(_|$)"
    )
    names = [word.partition("=")[0] for command in _of("ARG") for word in command.value]
    for name in [*names, *_pairs(_of("ENV"))]:
        assert not secret.search(name), name


def test_dependencies_come_before_code() -> None:
    steps = [c for c in FINAL if c.cmd in {"RUN", "COPY"}]
    (dependencies,) = (i for i, c in enumerate(steps) if "install.py dependencies" in c.original)
    before = [*_stage("base"), *steps[:dependencies]]
    assert set(_context_sources(before).values()) == {
        "image/install.py",
        "pyproject.toml",
        "requirements.txt",
    }
    assert "install.py runtime" in steps[-1].original
    # An argument is part of the environment of each later step: a revision must come after all.
    revision = next(i for i, c in enumerate(FINAL) if c.original.startswith("ARG REVISION"))
    assert not _of("RUN", FINAL[revision:])


def test_it_runs_as_a_number_that_is_not_root() -> None:
    assert _of("USER", FINAL)[-1].value == ("1000:0",)
    assert FINAL.index(_of("USER", FINAL)[-1]) > FINAL.index(_of("RUN", FINAL)[-1])


def test_it_starts_the_command_that_manifests_start() -> None:
    (entrypoint,) = _of("ENTRYPOINT")
    assert entrypoint.json
    assert entrypoint.value == COMMAND


def test_the_environment_of_the_image() -> None:
    environment = _pairs(_of("ENV"))
    assert environment["HF_HOME"] == "/volume/.cache/huggingface"
    assert environment["PYTHONPATH"] == _of("WORKDIR", FINAL)[-1].value[0] == "/app"
    assert environment["PYTHONUNBUFFERED"] == environment["PYTHONDONTWRITEBYTECODE"] == "1"


def test_the_labels_are_true_of_this_runtime() -> None:
    labels = {name: _filled(value) for name, value in _pairs(_of("LABEL", FINAL)).items()}
    assert labels["io.trainwright.contract"] == str(trainwright_runtime.CONTRACT)
    assert labels["io.trainwright.runtime-version"] == trainwright_runtime.__version__
    assert labels["io.trainwright.torch-version"] == ARGUMENTS["TORCH_VERSION"]
    opencontainers = "org.opencontainers.image."
    assert labels[f"{opencontainers}version"] == trainwright_runtime.__version__
    assert labels[f"{opencontainers}licenses"] == PROJECT["license"]
    assert labels[f"{opencontainers}base.name"] == ARGUMENTS["BASE_IMAGE"]
    for name in ("title", "description", "source", "documentation", "revision"):
        assert labels[opencontainers + name]
    page = labels[f"{opencontainers}documentation"].partition("/blob/main/")[2]
    assert (ROOT / page).is_file()


def test_the_page_about_images_knows_every_argument_and_label() -> None:
    page = (ROOT / "docs/images.md").read_text()
    labels = [name for name in _pairs(_of("LABEL")) if name.startswith("io.trainwright.")]
    for name in [*ARGUMENTS, *labels]:
        assert f"`{name}`" in page, name
    assert f"| `{ARGUMENTS['BASE_IMAGE']}` (default) |" in page
    for name in ("TORCH_VERSION", "TORCH_INDEX_URL", "EXTRAS"):
        assert f"| `{name}` | `{ARGUMENTS[name]}` |" in page


# What is pinned.

LOCK = (CONTEXT / "requirements.txt").read_text().replace("\\\n", " ").splitlines()
LOCKED = {
    canonicalize_name(line.partition("==")[0]): line for line in LOCK if not line.startswith("#")
}
PINS = {name: line.split()[0].partition("==")[2] for name, line in LOCKED.items()}


def _requirements() -> list[Requirement]:
    optional = PROJECT["optional-dependencies"].values()
    return [
        Requirement(r)
        for r in [*PROJECT["dependencies"], *(r for group in optional for r in group)]
    ]


def test_everything_is_pinned_by_hash_to_a_version_that_is_allowed() -> None:
    assert PINS["torch"] == ARGUMENTS["TORCH_VERSION"].partition("+")[0]
    for requirement in _requirements():
        version = PINS[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} but {version} is pinned"
    for name, line in LOCKED.items():
        _, *hashes = line.split()
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), name


def test_all_extras_are_installed_unless_told_otherwise() -> None:
    assert ARGUMENTS["EXTRAS"].split(",") == list(PROJECT["optional-dependencies"])


def test_the_licence_is_the_repository_s() -> None:
    # A link to it would lead outside the build context.
    assert (CONTEXT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert not (CONTEXT / "LICENSE").is_symlink()


# Running the steps.


def _shell(
    command: str, at: Mapping[str, Path], env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a RUN instruction's shell command; `at` says where folders of the image are here."""
    for inside in sorted(at, key=len, reverse=True):
        command = re.sub(rf"(?<=[ ='\"]){re.escape(inside)}(?![\w.])", str(at[inside]), command)
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(
        ["/bin/sh", "-c", command], env={**ours, **ARGUMENTS, **env}, cwd="/",
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def _ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The one line in which a step said why it failed."""
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (line,) = (s for s in done.stderr.splitlines() if s.startswith("install.py: "))
    return line


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A temporary folder that other users may enter, as they may not below pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.getuid() != 0, reason=f"{TAKES_ROOT}: giving folders to others")
def test_any_user_of_group_0_writes_where_the_image_says(open_folder: Path) -> None:
    (step,) = (c for c in _of("RUN", FINAL) if "useradd" in c.value[0])
    (open_folder / "etc").mkdir()
    # As on Ubuntu 24.04, where a user has the id already.
    (open_folder / "etc/passwd").write_text("ubuntu:x:1000:1000::/home/ubuntu:/bin/sh\n")
    for name in ("group", "shadow", "gshadow"):
        (open_folder / "etc" / name).write_text("root:x:0:\n" if name == "group" else "")
    home = open_folder / "home/trainwright"
    at = {"/volume": open_folder / "volume", "/app": open_folder / "app"}
    command = step.value[0].replace("useradd ", f"useradd --prefix={open_folder} ")
    _ok(_shell(command, at, {"HOME": str(home), "USER": "trainwright"}))
    assert "trainwright:x:1000:0:" in (open_folder / "etc/passwd").read_text()

    def can(action: str, path: Path, user: int, group: int = 0) -> bool:
        done = subprocess.run(
            ["/bin/sh", "-c", action, "sh", path],
            user=user, group=group, extra_groups=[], capture_output=True, check=False,
        )  # fmt: skip
        return done.returncode == 0

    shipped = at["/app"] / "workload.py"
    shipped.touch()
    for user in (1000, 1_000_680_000):
        for folder in (home, *at.values()):
            assert can('echo it >"$1" && rm "$1"', folder / "new", user), (folder, user)
        for action in ('echo it >>"$1"', 'rm -f "$1"', 'mv -f "$1" "$1.old"'):
            assert not can(action, shipped, user), "what the image put into /app stays as it is"
    for folder in (home, *at.values()):
        assert not can('echo it >"$1"', folder / "new", 1_000_680_000, group=4242), folder


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel stage, run over no more than what it copies."""
    return _wheels(tmp_path_factory.mktemp("wheel-stage"))


def _wheels(folder: Path) -> Path:
    through = _let_through()
    for target, source in _context_sources(_stage("wheel")).items():
        for path in (p for p in through if p.is_relative_to(source)):
            copy = folder / "runtime" / target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(CONTEXT / path, copy)
    return _built(folder)


def _built(folder: Path) -> Path:
    (step,) = _of("RUN", _stage("wheel"))
    at = {"/wheels": folder / "wheels", "/build": folder / "build"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    _ok(_shell(f"cd {folder / 'runtime'} && {step.value[0]}", at, {"PATH": path}))
    return folder / "wheels"


@pytest.mark.slow
def test_the_wheel_holds_all_modules_types_pages_and_the_licence(wheels: Path) -> None:
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (information,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(information).decode())
        licence = archive.read(information.replace("METADATA", "licenses/LICENSE"))
    source = CONTEXT / "src"
    files = {p for kind in ("*.py", "*.html", "*.css", "py.typed") for p in source.rglob(kind)}
    held = {n for n in names if ".dist-info/" not in n}
    assert held == {p.relative_to(source).as_posix() for p in files}
    assert headers["Version"] == trainwright_runtime.__version__
    assert licence == (ROOT / "LICENSE").read_bytes()


@pytest.mark.slow
def test_the_same_source_gives_the_same_wheel(wheels: Path, tmp_path: Path) -> None:
    shutil.copytree(wheels.parent / "runtime", tmp_path / "runtime", copy_function=shutil.copyfile)
    first, second = (next(folder.glob("*.whl")) for folder in (wheels, _built(tmp_path)))
    assert sha256(first.read_bytes()).digest() == sha256(second.read_bytes()).digest()


@pytest.mark.slow
def test_the_wheel_alone_says_its_contract_and_how_it_is_used(wheels: Path, tmp_path: Path) -> None:
    _base(tmp_path, "pip")
    (wheel,) = wheels.glob("*.whl")
    python = tmp_path / "base/bin/python"
    _ok(_shell(f"{python} -m pip install --no-deps --no-index {wheel}", {}, {}))
    contract = "import trainwright_runtime as r; print(r.__version__, r.CONTRACT)"
    message = _ok(_shell(f'{python} -c "{contract}"', {}, {}))
    assert message.split() == [trainwright_runtime.__version__, str(trainwright_runtime.CONTRACT)]
    assert "--nproc-per-node" in _ok(_shell(f"{python} -m trainwright_runtime --help", {}, {}))


# A base image with torch, and the steps over it.


def _closure(*roots: str) -> Iterator[metadata.Distribution]:
    """Distributions and all that they need here."""
    names, seen = list(roots), set()
    while names:
        key = canonicalize_name(names.pop())
        if key in seen:
            continue
        seen.add(key)
        found = metadata.distribution(key)
        yield found
        needed = [Requirement(r) for r in found.requires or ()]
        names += [r.name for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A virtual environment in the place of the image, and its steps."""

    folder: Path
    wheels: Path

    @property
    def python(self) -> Path:
        return self.folder / "base/bin/python"

    @property
    def held(self) -> Path:
        return self.folder / "trainwright/held.txt"

    def step(
        self, name: str, at: Mapping[str, Path] | None = None, **arguments: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the RUN instruction that calls `install.py NAME`; keywords are build arguments."""
        (found,) = (c for c in _of("RUN") if f"install.py {name} " in c.value[0])
        sources = {place: CONTEXT / source for place, source in _context_sources().items()}
        places = {**sources, OPT: self.held.parent, f"{OPT}/wheels": self.wheels, **(at or {})}
        path = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"
        return _shell(found.value[0], places, {"PATH": path, "TORCH_VERSION": TORCH, **arguments})

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        ours = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        return subprocess.run(
            [self.python, *arguments], cwd=self.folder, env={**ours, **env},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def torch(self) -> str:
        return _ok(self.run("-c", "import torch; print(torch.__version__, torch.__file__)")).strip()

    def packages(self) -> dict[str, str]:
        listed = json.loads(_ok(self.run("-m", "pip", "list", "--format=json")))
        return {canonicalize_name(p["name"]): p["version"] for p in listed}


TORCH = metadata.version("torch")
OPT = "/opt/trainwright"


def _base(folder: Path, *distributions: str) -> None:
    """A base image: Python and distributions of this environment, by links."""
    venv.create(folder / "base")
    (folder / "packages").mkdir()
    for found in _closure(*distributions):
        for top in {Path(f).parts[0] for f in found.files or ()} - {"..", "__pycache__"}:
            link = folder / "packages" / top
            if not link.exists():
                link.symlink_to(Path(str(found.locate_file(top))))
    # A line in a .pth file, since an environment over this one would not see its packages.
    (_site(folder) / "base.pth").write_text(f"{folder / 'packages'}\n")


def _site(folder: Path) -> Path:
    (found,) = (folder / "base/lib").glob("python*/site-packages")
    return found


@pytest.fixture
def image(tmp_path: Path, wheels: Path) -> Image:
    """A base image of one's own: Python, pip, torch and what torch needs, and no more."""
    _base(tmp_path, "pip", "torch")
    return Image(folder=tmp_path, wheels=wheels)


@pytest.mark.long
@pytest.mark.slow
def test_the_steps_install_what_is_pinned_and_leave_torch_alone(image: Image) -> None:
    torch, before = image.torch(), image.packages()
    _ok(image.step("torch"))
    assert image.packages() == before, "the base has its torch"
    # Compiling what others wrote, half of the time, proves nothing of the step.
    _ok(image.step("dependencies", PIP_COMPILE="no"))
    added = {n: v for n, v in image.packages().items() if n not in before}
    # torch brings fsspec, which the base then has.
    assert {canonicalize_name(r.name) for r in _requirements()} <= added.keys() | before.keys()
    assert added == {name: PINS[name] for name in added}
    _ok(image.step("runtime"))
    assert image.packages() == {
        **before,
        **added,
        "trainwright-runtime": trainwright_runtime.__version__,
    }
    assert image.torch() == torch
    assert f"torch=={TORCH}\n" in image.held.read_text()
    _ok(image.run("-m", "trainwright_runtime", "--help"))
    _ok(image.run("-m", "pip", "check"))
    compiled = next((_site(image.folder) / "trainwright_runtime").rglob("*.pyc"))
    flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
    assert flags == 0b11, "checked by hash (PEP 552), so that rewritten dates keep it valid"

    contract = trainwright_runtime.CONTRACT
    assert _refusal(image.step("runtime", CONTRACT=str(contract + 1))) == (
        f"install.py: the runtime keeps contract {contract}, and CONTRACT says {contract + 1}: "
        f"pass --build-arg CONTRACT={contract}"
    )

    # An image built from this one.
    done = image.run("-m", "pip", "install", "torch==2.8.0", PIP_CONSTRAINT=f"{image.held} ")
    assert done.returncode == 1
    assert f"(constraint) torch=={TORCH}" in done.stdout + done.stderr
    assert image.torch() == torch


def _wheel(folder: Path, name: str, files: Mapping[str, str], *requires: str) -> None:
    """A wheel as small as pip accepts."""
    information = f"{name}-1.dist-info"
    needs = "".join(f"Requires-Dist: {r}\n" for r in requires)
    with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(
            f"{information}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n{needs}"
        )
        archive.writestr(
            f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{information}/RECORD", "")


def _only(folder: Path) -> dict[str, str]:
    """Names of our own must never be looked up on an index, where they may be anybody's."""
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder)}


def _project(folder: Path, requirement: str) -> dict[str, Path]:
    """A project that needs one package, with the lock that follows from that."""
    path, lock = folder / "pyproject.toml", folder / "requirements.txt"
    path.write_text(f'[project]\ndependencies = ["{requirement}"]\noptional-dependencies = {{}}\n')
    digest = sha256((folder / f"{requirement}-1-py3-none-any.whl").read_bytes()).hexdigest()
    lock.write_text(f"{requirement}==1 \\\n    --hash=sha256:{digest}\n")
    return {f"{OPT}/pyproject.toml": path, f"{OPT}/requirements.txt": lock}


@pytest.mark.slow
def test_a_requirement_that_would_replace_torch_is_refused(image: Image, tmp_path: Path) -> None:
    _wheel(tmp_path, "greedy", {}, "torch!=" + TORCH.partition("+")[0])
    before = image.torch(), image.packages()
    done = image.step("dependencies", _project(tmp_path, "greedy"), EXTRAS="", **_only(tmp_path))
    assert _refusal(done) == (
        f"install.py: pip cannot install greedy beside torch {TORCH}; its own words are above"
    )
    assert (image.torch(), image.packages()) == before


@pytest.mark.slow
def test_a_package_that_brings_a_torch_of_its_own_is_refused(image: Image, tmp_path: Path) -> None:
    _wheel(tmp_path, "impostor", {"torch/__init__.py": f"__version__ = {TORCH!r}\n"})
    done = image.step("dependencies", _project(tmp_path, "impostor"), EXTRAS="", **_only(tmp_path))
    message = _refusal(done)
    assert f"torch was {TORCH} in {image.folder}/packages/torch/__init__.py and is now" in message
    assert str(_site(image.folder)) in message


@pytest.mark.slow
def test_only_what_the_lock_has_the_hash_of_is_installed(image: Image, tmp_path: Path) -> None:
    _wheel(tmp_path, "careful", {"careful.py": ""})
    at, before = _project(tmp_path, "careful"), image.packages()
    offline = {"EXTRAS": "", **_only(tmp_path)}
    _wheel(tmp_path, "careful", {"careful.py": "import os"})  # another file under the same name
    done = image.step("dependencies", at, **offline)
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stdout + done.stderr
    assert _refusal(done).startswith("install.py: pip cannot install careful beside torch ")
    at[f"{OPT}/requirements.txt"].write_text("# empty\n")
    assert _refusal(image.step("dependencies", at, **offline)) == (
        "install.py: requirements.txt has no hash of careful==1: write it anew, with "
        "scripts/requirements_lock.py"
    )
    assert image.packages() == before
    at = _project(tmp_path, "careful")
    _ok(image.step("dependencies", at, **offline))
    assert image.packages() == {**before, "careful": "1"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "arguments", "message"),
    [
        pytest.param(
            "torch", {"TORCH_VERSION": "2.7.1"},
            f"the base image has torch {TORCH}, and TORCH_VERSION says 2.7.1: pass --build-arg TORCH_VERSION={TORCH}",
            id="a label for another torch",
        ),
        pytest.param(
            "dependencies", {"EXTRAS": "elastic,reports"},
            "EXTRAS names 'reports', there are checkpoint, elastic, report, workloads",
            id="an extra that is not there",
        ),
        pytest.param(
            "runtime", {"EXTRAS": "report"},
            "pip cannot install trainwright-runtime 0.1.0 (RUNTIME_VERSION) from {wheels} and what is installed; its own words are above",
            id="a dependency that no step installed",
        ),
        pytest.param(
            "runtime",
            {"RUNTIME_VERSION": "9.9"},
            "pip cannot install trainwright-runtime 9.9 (RUNTIME_VERSION) from {wheels} and what is installed; its own words are above",
            id="a label for another runtime",
        ),
    ],
)  # fmt: skip
def test_steps_refuse(image: Image, step: str, arguments: dict[str, str], message: str) -> None:
    before = image.packages()
    assert _refusal(image.step(step, **arguments)) == "install.py: " + message.replace(
        "{wheels}", str(image.wheels)
    )
    assert image.packages() == before


@pytest.mark.slow
def test_a_base_without_torch_and_no_version_to_install_is_refused(
    tmp_path: Path, wheels: Path
) -> None:
    _base(tmp_path, "pip")
    image = Image(folder=tmp_path, wheels=wheels)
    assert _refusal(image.step("torch", TORCH_VERSION="")) == (
        "install.py: the base image has no torch: pass --build-arg TORCH_VERSION=<version>"
    )


@pytest.fixture
def bare(tmp_path: Path, wheels: Path) -> tuple[Image, dict[str, str], str]:
    """A base without torch, the arguments for an index that has one, and the hash of its wheel."""
    _base(tmp_path, "pip")
    index = tmp_path / "index/torch"
    index.mkdir(parents=True)
    _wheel(index, "torch", {"torch/__init__.py": "__version__ = '1'\n"})
    name = "torch-1-py3-none-any.whl"
    (index / "index.html").write_text(f'<a href="{name}">{name}</a>')
    digest = sha256((index / name).read_bytes()).hexdigest()
    arguments = {"TORCH_VERSION": "1", "TORCH_INDEX_URL": f"file://{index.parent}"}
    return Image(folder=tmp_path, wheels=wheels), arguments, digest


@pytest.mark.slow
def test_a_base_without_torch_gets_the_version_from_the_index(
    bare: tuple[Image, dict[str, str], str],
) -> None:
    image, arguments, digest = bare
    for wrong in ("0" * 64, digest[::-1]):
        done = image.step("torch", **arguments, TORCH_SHA256=wrong)
        assert _refusal(done) == "install.py: pip cannot install torch 1; its own words are above"
    _ok(image.step("torch", **arguments, TORCH_SHA256=digest))
    assert image.torch() == f"1 {_site(image.folder)}/torch/__init__.py"
    _ok(image.run("-m", "pip", "uninstall", "--yes", "torch"))
    _ok(image.step("torch", **arguments))  # without a hash, the index is trusted
    assert image.torch() == f"1 {_site(image.folder)}/torch/__init__.py"


@pytest.mark.slow
def test_the_torch_of_the_lock_is_installed_by_its_hash(
    bare: tuple[Image, dict[str, str], str],
) -> None:
    image, arguments, digest = bare
    lock = image.folder / "requirements.txt"
    at = {f"{OPT}/requirements.txt": lock}
    lock.write_text(f"torch==1 --hash=sha256:{'0' * 64}\n")
    assert "pip cannot install torch 1" in _refusal(image.step("torch", at, **arguments))
    lock.write_text(f"torch==1 --hash=sha256:{digest}\n")
    _ok(image.step("torch", at, **arguments))
    assert image.torch() == f"1 {_site(image.folder)}/torch/__init__.py"
