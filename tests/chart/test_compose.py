"""The one target that is no Kubernetes object, as `docker compose` reads it."""

from __future__ import annotations

from pathlib import Path

import compose_spec
import pytest

from helm_chart import CHART, IMAGE, ROOT, body, load, text
from trainwright.datatypes.data import Data
from trainwright.documents.validation import schema
from trainwright.kinds import TARGETS

SCENARIO = load(CHART / "ci/compose.yaml")
WITH_ROLES = load(CHART / "ci/compose-roles.yaml")
RENDERED = sorted(ROOT.glob("tests/golden/*/expected/*/rendered/*/compose.yaml"))


def _read(rendered: str) -> None:
    # The reader knows no number of retries, which the specification does:
    # https://github.com/compose-spec/compose-spec/blob/main/05-services.md#restart
    compose_spec.PyCompose.from_yaml(rendered.replace('"on-failure:3"', "on-failure")).validate()


@pytest.mark.parametrize("path", RENDERED, ids=lambda p: p.parent.name)
def test_another_reader_of_the_specification_accepts_it(path: Path) -> None:
    _read(path.read_text(encoding="utf-8"))


def test_that_reader_would_see_an_unknown_field() -> None:
    _read(text(SCENARIO))
    with pytest.raises(ValueError, match="shmsize"):
        _read(text(SCENARIO).replace("shm_size", "shmsize"))


@pytest.mark.parametrize("scenario", [SCENARIO, WITH_ROLES])
def test_our_schema_accepts_it_strictly(scenario: Data) -> None:
    envelope = TARGETS["compose"].envelope
    assert envelope
    kind = schema.kind("Compose", "1.31")
    assert kind.explain(envelope(body(scenario))) == ()
    assert kind.explain(envelope({**body(scenario), "version": "3"}))


def test_what_trains_starts_once_each_pod_of_a_role_is_healthy() -> None:
    _read(text(WITH_ROLES))
    services = body(WITH_ROLES)["services"]
    assert [*services] == ["train", "judge-0", "judge-1"]
    healthy = {"condition": "service_healthy"}
    assert services["train"]["depends_on"] == {"judge-0": healthy, "judge-1": healthy}
    assert services["judge-1"]["image"] == "registry.example.com/ml/judge:2.0"
    given = [
        device["device_ids"]
        for service in services.values()
        for device in service["deploy"]["resources"]["reservations"]["devices"]
    ]
    assert given == [["0", "1"], ["2"], ["3"]]


def test_secrets_come_from_the_shell_and_dollars_stay() -> None:
    service = body(SCENARIO)["services"]["train"]
    assert service["environment"] == {
        "HF_TOKEN": "${HF_TOKEN:?set it to the key token of the Secret hf}",
        "PRICE": "$$5",
    }


def test_a_container_has_the_rights_of_a_restricted_pod() -> None:
    service = body(SCENARIO)["services"]["train"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert (service["user"], service["group_add"]) == ("1000:1000", ["1000"])


def test_gpus_memory_and_restarts_are_dockers() -> None:
    service = body(SCENARIO)["services"]["train"]
    assert service["restart"] == "on-failure:3"
    assert service["shm_size"] == "32g"
    resources = service["deploy"]["resources"]
    assert resources["limits"] == {"memory": "64g"}
    (device,) = resources["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 4, "capabilities": ["gpu"]}


def test_one_image_is_all_it_takes() -> None:
    values: dict[str, Data] = {"target": "compose", "image": IMAGE}
    service = body(values)["services"]["train"]
    assert service["restart"] == "no"
    assert "deploy" not in service
