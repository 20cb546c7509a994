"""Compose files and command lines of Docker: what the shell, the disk and a terminal add to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.importing import ImportInput
from trainwright.importing.batch import ImportBatch, ImportOptions, run
from trainwright.kinds.reading import Loss

HERE = Path(__file__).parent
CLUSTER = "volcano"
SERVICE: dict[str, Any] = {"image": "registry.example.com/a:1", "entrypoint": ["python", "a.py"]}


def imported(inputs: ImportInput, environment: str = "lab") -> ImportBatch:
    return run(HERE, inputs, ImportOptions(environment=environment, write=False))


def compose(
    tmp_path: Path,
    service: dict[str, Any],
    values: dict[str, str] | None = None,
    environment: str = "lab",
    **more: Any,
) -> ImportBatch:
    path = tmp_path / "compose.yaml"
    path.write_text(yaml.safe_dump({"services": {"train": {**SERVICE, **service}}, **more}))
    inputs = ImportInput(values)
    inputs.files((str(path),))
    done = imported(inputs, environment)
    return ImportBatch(done.imported, (*inputs.problems, *done.problems))


def command(text: str) -> ImportBatch:
    inputs = ImportInput()
    inputs.commands("--command", text)
    done = imported(inputs)
    return ImportBatch(done.imported, (*inputs.problems, *done.problems))


def cannot_run(done: ImportBatch) -> list[str]:
    (job,) = done.imported
    return [str(left) for left in job.left if left.severity is Loss.CANNOT_RUN]


def spec(done: ImportBatch) -> Any:
    (job,) = done.imported
    return job.spec


# --- variables of the shell ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("service", "asked"),
    [
        ({"command": "--epochs ${EPOCHS} --out $OUT"}, "--set EPOCHS=… --set OUT=…"),
        ({"image": "registry.example.com/a:$TAG"}, "--set TAG=…"),
        ({"image": "registry.example.com/a:${TAG:?name it}"}, "--set TAG=…"),
        ({"volumes": ["${DATA}:/data"]}, "--set DATA=…"),
        ({"shm_size": "${SHM}"}, "--set SHM=…"),
    ],
)
def test_variables_of_the_shell_are_asked_for(
    service: dict[str, Any], asked: str, tmp_path: Path
) -> None:
    """Never a run whose program is given the text of a variable."""
    done = compose(tmp_path, service)
    assert done.imported == ()
    (problem,) = done.problems
    assert problem.endswith(asked)


def test_set_gives_variables_their_values(tmp_path: Path) -> None:
    service = {"command": "--epochs ${EPOCHS} --lr=${LR:-0.1}"}
    done = compose(tmp_path, service, {"EPOCHS": "3", "LR": "0.2"})
    assert spec(done)["flags"] == {"epochs": 3, "lr": 0.2}
    assert cannot_run(done) == []


@pytest.mark.parametrize(
    ("service", "field", "expected"),
    [
        ({"command": "--lr=${LR:-0.1}"}, "flags", {"lr": 0.1}),
        ({"command": "--out=${OUT-/out}/x"}, "flags", {"out": "/out/x"}),
        (
            {"image": "${IMAGE:-registry.example.com/b}:2"},
            "image",
            {"repository": "registry.example.com/b", "tag": "2"},
        ),
        ({"environment": {"A": "${A:-1}"}}, "env", {"A": "1"}),
        ({"environment": ["A=${A-x}y"]}, "env", {"A": "xy"}),
    ],
)
def test_defaults_of_variables_are_taken_and_named(
    service: dict[str, Any], field: str, expected: Any, tmp_path: Path
) -> None:
    done = compose(tmp_path, service)
    assert spec(done)[field] == expected
    assert cannot_run(done) == []
    (job,) = done.imported
    (default,) = [left for left in job.left if "its default is taken" in left.why]
    assert (default.severity, default.place.line > 0) == (Loss.COSMETIC, True)


@pytest.mark.parametrize("value", ["${RUN}", "${RUN:-}", "$RUN", "${RUN:?set it}"])
def test_a_variable_without_a_value_cannot_run(value: str, tmp_path: Path) -> None:
    (left,) = cannot_run(compose(tmp_path, {"environment": {"RUN": value}}))
    assert "its value is that of the shell that starts the container" in left


@pytest.mark.parametrize("word", ["--price=5$$", "--shell=$${HOME}", "--cost=$1"])
def test_a_dollar_sign_that_is_none_of_compose_s_stays(word: str, tmp_path: Path) -> None:
    done = compose(tmp_path, {"command": [word]})
    assert list(spec(done)["flags"].values()) == [word.partition("=")[2].replace("$$", "$")]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("cd $$PWD", "cd $PWD"),
        ("$${HOME}/out", "${HOME}/out"),
        ("5$$", "5$"),
        ("$$(date)", "$$(date)"),  # which Kubernetes would take for a variable's value
        ("$$$$", "$$$"),  # the process of the shell: Kubernetes makes one of two
    ],
)
def test_a_dollar_sign_is_doubled_only_where_kubernetes_reads_it(
    written: str, said: str, tmp_path: Path
) -> None:
    done = compose(
        tmp_path,
        {"entrypoint": ["sh", "-c", f"python a.py {written}"], "environment": {"A": written}},
        environment=CLUSTER,
    )
    assert cannot_run(done) == []
    assert spec(done)["entrypoint"]["argv"][-1] == f"python a.py {said}"
    assert spec(done)["env"] == {"A": said}


# --- folders of the machine ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/mnt/NAS/some_thing", "mnt-nas-some-thing"),
        ("/data/v1.5", "data-v1-5"),
        ("/data/ImageNet", "data-imagenet"),
        ("/data/-x-", "data-x"),
        ("/a" * 40, "a-" * 24 + "a"),
    ],
)
def test_a_folder_s_volume_has_a_name_that_pods_take(
    folder: str, name: str, tmp_path: Path
) -> None:
    done = compose(tmp_path, {"volumes": [f"{folder}:/data"]})
    assert cannot_run(done) == []
    ((volume, body),) = spec(done)["volumes"].items()
    assert (volume, body["hostPath"]["path"]) == (name, folder)


def test_two_folders_of_one_name_are_two_volumes(tmp_path: Path) -> None:
    done = compose(tmp_path, {"volumes": ["/data/A:/a", "/data/a:/b"]})
    assert cannot_run(done) == []
    found = {v["hostPath"]["path"]: v["mountPath"] for v in spec(done)["volumes"].values()}
    assert found == {"/data/A": "/a", "/data/a": "/b"}


@pytest.mark.parametrize(
    ("volume", "claim"),
    [("hf_cache", "hf-cache"), ("Data_Set.1", "data-set.1"), ("_x_", "x"), ("cache", "cache")],
)
@pytest.mark.parametrize("environment", ["lab", CLUSTER])
def test_a_named_volume_is_a_claim_whose_name_a_cluster_takes(
    environment: str, volume: str, claim: str, tmp_path: Path
) -> None:
    done = compose(
        tmp_path,
        {"volumes": [f"{volume}:/data"]},
        environment=environment,
        volumes={volume: {"external": True}},
    )
    assert cannot_run(done) == []
    (body,) = spec(done)["volumes"].values()
    assert body == {"claim": claim, "mountPath": "/data"}
    (job,) = done.imported
    said = [left for left in job.left if f"the claim {claim} " in left.why]
    assert len(said) == (volume != claim)
    for left in said:
        assert (left.severity, left.place.line > 1) == (Loss.BEHAVIOUR, True)
        assert left.value.startswith(volume)


@pytest.mark.parametrize("mount", ["-v hf_cache:/data:ro", "--mount src=hf_cache,dst=/data,ro"])
def test_so_is_that_of_a_command_line(mount: str) -> None:
    done = command(f"docker run {mount} registry.example.com/a:1 python a.py")
    assert cannot_run(done) == []
    (body,) = spec(done)["volumes"].values()
    assert body == {"claim": "hf-cache", "mountPath": "/data", "readOnly": True}


def test_two_volumes_of_one_claim_s_name_are_two_claims(tmp_path: Path) -> None:
    done = compose(tmp_path, {"volumes": ["a_b:/x", "a-b:/y", "A_B:/z"]}, environment=CLUSTER)
    assert cannot_run(done) == []
    found = {v["mountPath"]: v["claim"] for v in spec(done)["volumes"].values()}
    assert found["/y"] == "a-b"
    assert len({*found.values()}) == 3


def test_each_volume_that_is_left_has_its_own_reason(tmp_path: Path) -> None:
    done = compose(tmp_path, {"volumes": ["./src:/src", "/data:/data", "~/out:/out"]})
    assert list(spec(done)["volumes"]) == ["data"]
    first, second = cannot_run(done)
    assert '"./src"' in first
    assert '"~/out"' in second


def test_a_service_that_is_built_has_no_image_yet(tmp_path: Path) -> None:
    (problem,) = compose(tmp_path, {"image": None, "build": "."}).problems
    assert "has no image: its `build` makes one. Name it with --image" in problem


# --- command lines ---------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["bash", "/bin/bash", "sh -l", "bash --login"])
def test_a_shell_at_a_terminal_trains_nothing(words: str) -> None:
    (left,) = cannot_run(command(f"docker run -it --gpus 1 registry.example.com/a:1 {words}"))
    assert "write what is typed there in its place" in left


@pytest.mark.parametrize("words", ["bash train.sh", "bash -c 'python a.py'", "python", ""])
def test_a_shell_with_a_script_is_a_program(words: str) -> None:
    assert cannot_run(command(f"docker run -it registry.example.com/a:1 {words}")) == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("docker run -v <path to data>:/data a:1 train", "fill in <path to data> before"),
        ("docker run -e KEY=<key> a:<tag> train", "fill in <key>, <tag> before"),
        ("docker run $OPTIONS a:1 train", "$OPTIONS is where the image would be"),
        ("docker run $(cat image) train", "$(cat image) is where the image would be"),
        ("podman run --rm", "podman run: there is no image"),
    ],
)
def test_what_a_person_or_a_shell_fills_in_is_refused(line: str, why: str) -> None:
    done = command(line)
    assert done.imported == ()
    (problem,) = done.problems
    assert why in problem


def test_options_are_shown_as_they_are_written() -> None:
    line = "docker run --gpus all --ipc=host -p 80:80 --name sft a.example.com/b:1 python a.py"
    (made,) = command(line).imported
    assert made.source.title == "Docker/sft"
    shown = {left.field: left.value for left in made.left}
    assert shown["--ipc"] == "host"
    assert "80:80" in shown["--publish"]
    (note, *_) = made.notes
    assert (
        note
        == "all nvidia.com/gpu of its machine are the 2 of a node of the pool any-gpu: --pool names another"
    )


def test_a_folder_of_the_shell_is_shown_as_it_is_written() -> None:
    (made,) = command("docker run -v $PWD:/a registry.example.com/a:1 python a.py").imported
    assert {"$PWD:/a"} == {left.value for left in made.left if left.field == "--volume"}


@pytest.mark.parametrize(
    ("started", "severity"),
    [
        ("chown -R 1000 /d && python a.py", Loss.BEHAVIOUR),
        ("apt-get install -y gcc; python a.py", Loss.BEHAVIOUR),
        ("python su.py --apt /chown", Loss.COSMETIC),
    ],
)
def test_a_command_of_root_loses_what_it_needs(started: str, severity: Loss) -> None:
    (made,) = command(f"docker run a.example.com/b:1 bash -c '{started}'").imported
    (dropped,) = [each for each in made.differing if "capabilities are dropped" in str(each)]
    assert dropped.severity is severity
    assert ("fails" in str(dropped)) is (severity is Loss.BEHAVIOUR)


@pytest.mark.parametrize(
    ("service", "field", "expected"),
    [
        ({"environment": {"WORLD_SIZE": "2", "A": "1"}}, "environment/WORLD_SIZE", Loss.COSMETIC),
        ({"environment": ["WORLD_SIZE=2", "A=1"]}, "environment/0", Loss.COSMETIC),
        ({"secrets": ["token"]}, "secrets", Loss.CANNOT_RUN),
        ({"volumes": [{"type": "volume", "source": "a", "target": "/a"}]}, "volumes/0/type", Loss.COSMETIC),
    ],
)  # fmt: skip
def test_what_is_left_of_a_service(
    service: dict[str, Any], field: str, expected: Loss, tmp_path: Path
) -> None:
    torchrun = ["torchrun", "--nproc-per-node=2", "a.py"]
    (one,) = compose(tmp_path, {"entrypoint": torchrun, **service}).imported
    severities = [left.severity for left in one.left if left.field.endswith(field)]
    assert severities == [expected], [str(left) for left in one.left]


def test_amounts_of_a_service_itself_are_those_of_its_pod(tmp_path: Path) -> None:
    """Never memory of the environment in place of the service's own."""
    done = compose(tmp_path, {"mem_limit": "64g", "cpus": 16, "mem_reservation": "32g"})
    assert spec(done)["resources"] == {
        "memory": "32Gi",
        "limits": {"cpu": "16", "memory": "64Gi"},
    }
    assert cannot_run(done) == []


def test_a_volume_of_docker_is_one_by_itself() -> None:
    line = "docker run --mount type=volume,source=v,target=/v registry.example.com/a:1 python a.py"
    (made,) = command(line).imported
    assert "--mount" not in {left.field for left in made.left}
