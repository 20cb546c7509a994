"""Probes of containers: how long the kubelet tries one."""

from __future__ import annotations

import pytest

from trainwright.datatypes.data import Data
from trainwright.objects.pods.probes import patience


@pytest.mark.parametrize(
    ("probe", "seconds"),
    [
        ({}, 30),
        ({"periodSeconds": 5, "failureThreshold": 12}, 60),
        ({"initialDelaySeconds": 90, "periodSeconds": 5}, 105),
        ({"periodSeconds": 0, "failureThreshold": None}, 30),  # 0 is as if it were left out
    ],
)
def test_a_probe_is_tried_until_it_has_failed_often_enough(
    probe: dict[str, Data], seconds: int
) -> None:
    assert patience(probe) == seconds
