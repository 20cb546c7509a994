"""The same repository, kept, merged and reverted by git itself and rendered by the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner
from sync_repository import Memory, Tool, installed
from sync_requests import Tree

from trainwright.cli import main
from trainwright.render.history import History

_ATTRIBUTES = """\
* text=auto eol=lf
environments/*/rendered/kustomization.yaml merge=union
environments/*/ledger.yaml merge=union
"""
_ENVIRONMENT = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "ada@example.com" for who in ("AUTHOR", "COMMITTER")},
}


@dataclass
class Clone(Memory):
    """Commits in a folder's git repository; `hashes` are those of the numbered ones."""

    root: Path = Path()
    hashes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._git("init", "-q")
        (self.root / ".gitattributes").write_text(_ATTRIBUTES, encoding="utf-8")

    def commit(self, branch: str, tree: Tree, *others: str) -> None:
        super().commit(branch, tree, *others)
        self._put(tree)
        self._git("add", "-A")
        parents = [f"-p{self.hashes[number]}" for number in self.commits[-1].parents]
        written = self._git("write-tree")
        self.hashes.append(self._git("commit-tree", written, *parents, "-m", "An edit"))
        self._check_out(branch)

    def merged(self, ours: str, theirs: str) -> tuple[dict[str, bytes], dict[str, Tree]]:
        return self._combined(ours, "merge", "--no-commit", "--no-ff", self._tip(theirs))

    def reverted(self, branch: str, number: int) -> tuple[dict[str, bytes], dict[str, Tree]]:
        return self._combined(branch, "revert", "--no-commit", self.hashes[number])

    def past(self, branch: str) -> History | None:  # type: ignore[override]
        self._check_out(branch)
        return History(self.root)

    def rendered(
        self,
        branch: str,
        tree: Tree,
        tool: Tool,
        selected: tuple[str, ...] = (),
        *,
        new_runs: bool = False,
    ) -> Tree | None:
        if branch in self.tips:
            self._check_out(branch)
        self._put(tree)
        command = ["-C", str(self.root), "render", *(f"prod/{job}" for job in selected)]
        command += ["--new-runs"] if new_runs else []
        with installed(tool):
            done = CliRunner().invoke(main, command)
        return self._files() if done.exit_code == 0 else None

    def _combined(self, branch: str, *command: str) -> tuple[dict[str, bytes], dict[str, Tree]]:
        self._check_out(branch)
        self._git(*command, conflicts=True)
        conflicts: dict[str, dict[str, bytes]] = {}
        for line in self._git("ls-files", "--unmerged").splitlines():
            about, path = line.split("\t")
            stage = about.split()[2]
            versions = conflicts.setdefault(path, {})
            if stage != "1":
                raw = self._git("show", f":{stage}:{path}", strip=False).encode()
                versions[{"2": "ours", "3": "theirs"}[stage]] = raw
        files = {path: raw for path, raw in self._files().items() if path not in conflicts}
        self._check_out(branch)
        return files, dict(conflicts)

    def _tip(self, branch: str) -> str:
        return self.hashes[self.tips[branch]]

    def _check_out(self, branch: str) -> None:
        self._git("checkout", "-qf", "--detach", self._tip(branch))
        self._git("reset", "-q", "--hard")
        self._git("clean", "-qfd")

    def _put(self, tree: Tree) -> None:
        shutil.rmtree(self.root / "environments", ignore_errors=True)
        for path, raw in tree.items():
            full = self.root / path
            full.parent.mkdir(parents=True, exist_ok=True)
            full.write_bytes(raw)

    def _files(self) -> dict[str, bytes]:
        found = sorted((self.root / "environments").rglob("*"))
        return {p.relative_to(self.root).as_posix(): p.read_bytes() for p in found if p.is_file()}

    def _git(self, *arguments: str, conflicts: bool = False, strip: bool = True) -> str:
        date = {f"GIT_{who}_DATE": f"{10**9 + len(self.commits)} +0000" for who in _WHO}
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env={**_ENVIRONMENT, **date},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert conflicts or done.returncode == 0, done.stderr
        return done.stdout.strip() if strip else done.stdout


_WHO = ("AUTHOR", "COMMITTER")
