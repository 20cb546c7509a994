"""Publishing of rendered files: commits built in the object store, which only advance a branch.

The second of two concurrent publishers renders again on top of the first's commit, so that nothing
published is lost. The working tree changes only when the target is the checked-out branch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from posixpath import join
from time import sleep

from trainwright.datatypes.layout import ENVIRONMENTS, RENDERED, JobFile, rendered_folder
from trainwright.datatypes.listing import listed
from trainwright.files import filetree, git, lineage
from trainwright.files.filetree import Changes
from trainwright.files.git import GitError
from trainwright.files.tree import Folder
from trainwright.gitops import statement
from trainwright.gitops.publish import provenance
from trainwright.gitops.publish.holding import Change, Holding
from trainwright.gitops.publish.model import Published, PublishError, PublishOptions, Unsound
from trainwright.gitops.publish.provenance import Source
from trainwright.gitops.statement import STATEMENT, RenderedSet
from trainwright.render import build as plan
from trainwright.render.derivation import Derivation, Underived
from trainwright.render.history import History
from trainwright.runs.folder import RenderedFolder
from trainwright.runs.workspace import Workspace
from trainwright.specs import inventory
from trainwright.specs.select import environments

_SPARSE = "core.sparseCheckout"
_WAIT, _LONGEST_WAIT = 0.1, 3.0  # seconds between two attempts


def publish(root: Path, patterns: tuple[str, ...], options: PublishOptions) -> Iterator[Published]:
    """Publish whole environments as they are in HEAD, in one commit per branch.

    Raise PublishError, GitError and, when the specs of a commit have errors, Unsound.
    """
    publisher = Publisher(root, options)
    chosen = environments(patterns, publisher.survey(), "published")
    publisher.refuse_uncommitted()
    branches: dict[str, list[str]] = {}
    for name in chosen:
        branches.setdefault(publisher.branch(name), []).append(name)
    for branch, names in branches.items():
        yield publisher.publish(branch, tuple(names))


class Publisher:
    """One clone, and the commit in it whose specs are published."""

    def __init__(self, root: Path, options: PublishOptions):
        self._root = root
        self._options = options
        self._repository, self._inside = git.find(root)
        self._head = self._repository.commit("HEAD")

    def survey(self) -> Mapping[str, tuple[JobFile, ...]]:
        """Return HEAD's jobs by environment, including those that sparse checkout leaves out."""
        specs = self._repository.tree(self._head, self._inside, later=RENDERED)
        has_environments = specs.kind(ENVIRONMENTS) == "folder"
        return inventory.discover(specs).jobs if has_environments else {}

    def _from_top(self, path: str) -> str:
        return join(self._inside, path)

    # --- where to ------------------------------------------------------------------------------

    @cached_property
    def _checked_out(self) -> str:
        """The branch that is checked out; empty for none."""
        return self._repository.line("branch", "--show-current")

    def branch(self, environment: str) -> str:
        """Return the branch that an environment is published to.

        Raise PublishError for a bad name.
        """
        name = _filled(self._options.branch, environment) or self._checked_out
        if name.startswith("-"):
            raise PublishError(f'"{name}" is not a valid name for a branch')
        if not name:
            raise PublishError("no branch is checked out: name one with --branch")
        try:
            self._repository.git("check-ref-format", f"refs/heads/{name}")
        except GitError as error:
            raise PublishError(f'"{name}" is not a valid name for a branch') from error
        return name

    def _path(self, environment: str) -> str:
        """Return the folder that an environment is published to, from the top of the branch."""
        beside = self._from_top(rendered_folder(environment))
        path = _filled(self._options.path, environment) or beside
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts or path.startswith("/"):
            raise PublishError(f'the path "{path}" leads out of the branch')
        return "/".join(parts)

    def _is_here(self, branch: str) -> bool:
        """Whether a branch is the one that is checked out."""
        return branch == self._checked_out and not self._options.elsewhere

    # --- what from -----------------------------------------------------------------------------

    def refuse_uncommitted(self) -> None:
        """Raise an error when the specs on disk are not those that are committed."""
        folder = self._from_top(ENVIRONMENTS)
        below = len(folder.split("/"))
        dirty = sorted(
            path
            for path in self._repository.uncommitted(folder)
            if path.split("/")[below + 1 : below + 2] != [RENDERED]
        )
        if dirty:
            raise PublishError(f"uncommitted changes in {listed(tuple(dirty))}: commit them first")

    def rendered(self, commit: str, environment: str, holding: Holding) -> Changes:
        """Render an environment at a commit, and return the changes to what the branch holds.

        The runs on the branch are those that the cluster was given, so they are kept. So are those
        that were rendered beside the specs, until the branch has them.
        """
        specs = self._repository.tree(commit, self._inside, later=RENDERED)
        runs = holding.as_rendered(environment)
        options = replace(self._options.build, recover=True)
        history = History(self._root, beside=False, tip=commit)
        build = plan.build(self._root, (environment,), options, specs, runs, history)
        changes = build.environments[0].changes
        if build.failed or changes is None:
            raise Unsound(build)
        return changes

    def _refuse_removals(self, branch: str, name: str, holding: Holding, commit: str) -> None:
        """Raise PublishError if a job's run was removed from the branch by hand.

        Such a job is not a new one.
        """
        discovered = inventory.discover(self._repository.tree(commit, self._inside, later=RENDERED))
        specs = {file.name: self._from_top(file.path) for file in discovered.jobs.get(name, ())}
        if removed := tuple(holding.removed(specs)):
            raise PublishError(
                f"removed by hand on {branch}: {listed(removed)}; put it back there, or give "
                "--new-runs"
            )

    # --- publishing ----------------------------------------------------------------------------

    def publish(self, branch: str, environments: tuple[str, ...]) -> Published:
        """Publish all environments of a branch in one commit, and push it if the options say so."""
        if len({self._path(name) for name in environments}) < len(environments):
            raise PublishError(
                f"{branch} would hold {' and '.join(environments)} in one place: put {{env}} into "
                "--branch or --path"
            )
        if self._is_here(branch):
            self._refuse_edits_on_disk(environments)
        try:
            return (
                self._pushed(branch, environments)
                if self._options.push
                else self._locally(branch, environments)
            )
        except GitError as error:
            raise provenance.redacted(error) from error

    def _locally(self, branch: str, environments: tuple[str, ...]) -> Published:
        if self._options.elsewhere:
            raise PublishError("a commit for another repository has to be pushed: add --push")
        tip = self._local_tip(branch)
        done = self._commit(branch, environments, tip)
        if done.commit and self._is_here(branch):
            self._follow(done, tip)
        elif done.commit:
            self._refuse_checked_out(branch)
            self._repository.git("update-ref", f"refs/heads/{branch}", done.commit)
        return done

    def _local_tip(self, branch: str) -> str:
        """Return a branch's commit, here or as last fetched from the remote; empty if new."""
        for name in (f"refs/heads/{branch}", f"refs/remotes/{self._options.remote}/{branch}"):
            if self._repository.has(name):
                return self._repository.commit(name)
        return ""

    def _refuse_checked_out(self, branch: str) -> None:
        worktrees = self._repository.line("worktree", "list", "--porcelain").splitlines()
        if f"branch refs/heads/{branch}" in worktrees:
            raise PublishError(f"{branch} is checked out in another working tree: publish there")

    def _pushed(self, branch: str, environments: tuple[str, ...]) -> Published:
        remote = self._options.remote
        named = not {":", "/"} & set(remote)  # no URL and no path
        if named and not self._repository.has_remote(remote):
            raise PublishError(
                f'there is no remote "{remote}": `git remote add {remote} URL`, or name another '
                "with --remote"
            )
        for attempt in range(self._options.attempts):
            sleep(min(_LONGEST_WAIT, _WAIT * 2**attempt) if attempt else 0)
            tip = self._remote_tip(branch)
            done = self._commit(branch, environments, tip)
            if not done.commit:
                return done
            try:
                self._repository.push(remote, done.commit, branch)
            except GitError as error:
                # Another publisher was faster, or is pushing now. Anything else would fail again.
                if self._remote_tip(branch) == tip and "lock" not in str(error):
                    raise
                continue
            if self._is_here(branch):
                self._follow(done, tip)
            return done
        raise PublishError(
            f"others pushed to {branch} during all {self._options.attempts} attempts; try again"
        )

    def _remote_tip(self, branch: str) -> str:
        """Fetch the remote's branch, and return the commit to build on; empty for a new branch."""
        remote = self._options.remote
        tip = self._repository.remote_tip(remote, branch)
        if tip and not self._repository.has(tip):
            self._repository.fetch(remote, f"refs/heads/{branch}")
        if not self._is_here(branch):
            return tip
        # Commits that only this clone has go along; those that only the remote has come first.
        if not tip or self._repository.contains(self._head, tip):
            return self._head
        if self._repository.contains(tip, self._head):
            return tip
        raise PublishError(f"{branch} here and at {remote} have each what the other lacks: pull")

    def _commit(self, branch: str, environments: tuple[str, ...], tip: str) -> Published:
        """Commit on top of `tip`, unless the tip already holds the same files, or newer ones."""
        here = tip and self._repository.contains(tip, self._head)
        source = tip if here else self._head  # specs that are on the branch: the newest count
        names = tuple(name for name in environments if here or self._is_due(tip, name, source))
        change = Change()
        sets: dict[str, Mapping[str, bytes]] = {}
        for name in names:
            holding = Holding(self._repository, tip, self._path(name))
            if not self._options.discard_edits:
                holding.refuse_edits(branch)
            self._refuse_underived(name)
            if not self._options.build.new_runs:
                self._refuse_removals(branch, name, holding, source)
            rendered = self.rendered(source, name, holding)
            change.add(holding.change(rendered))
            sets[name] = holding.after(rendered)
        if not change:
            message = "up to date" if names else "holds what a later commit renders to"
            return Published(branch=branch, environments=names, message=message)
        message = f"{len(change.files)} written, {len(change.removed)} removed, from {source[:12]}"
        if self._options.dry_run:
            return Published(branch=branch, environments=names, message=f"not made: {message}")
        trace = Source(self._repository, source)
        if not here:
            change.files.update(self._traces(trace, sets, tip))
        tree = self._repository.write_tree(tip, change.removed, change.files)
        commit = self._repository.commit_tree(tree, tip, trace.message(names))
        return Published(branch=branch, environments=names, commit=commit, message=message)

    def _traces(
        self, source: Source, sets: Mapping[str, Mapping[str, bytes]], base: str
    ) -> Iterator[tuple[str, str]]:
        """Yield path (from the top) and text of the files that trace the others to their source."""
        metadata = source.metadata(tuple(sets))
        for folder in ("", *map(self._path, sets)):
            yield f"{folder}/{provenance.METADATA}".lstrip("/"), metadata
        for name, files in sets.items():
            rendered = RenderedSet(
                environment=name, files=files, commit=source.commit, url=source.url, base=base
            )
            yield f"{self._path(name)}/{STATEMENT}".lstrip("/"), statement.text(rendered)

    def _is_due(self, tip: str, environment: str, source: str) -> bool:
        """Whether the branch has no rendering of the environment from a commit after `source`."""
        before = provenance.source_of(self._repository, tip, environment) if tip else ""
        specs = "origin" if self._options.elsewhere else self._options.remote
        return not provenance.is_newer(self._repository, specs, before, source, environment)

    @cached_property
    def _derivation(self) -> Derivation | None:
        """Return the derivation of the rendered files beside the specs; None without a branch."""
        branch = lineage.find(self._root)
        helm = self._options.build.helm
        return Derivation(self._root, branch, self._specs, helm, on_disk=False) if branch else None

    @cached_property
    def _specs(self) -> Workspace:
        """The specs of HEAD, with the files rendered next to them."""
        return Workspace(self._repository.tree(self._head, self._inside, later=RENDERED))

    def _refuse_underived(self, environment: str) -> None:
        """Raise PublishError if files rendered next to the specs derive from no source, since runs
        that the branch lacks are taken from there.
        """
        proof = self._derivation
        forged = (
            [
                file.path
                for file in proof.underived(environment)
                if not self._is_discarded(proof, file)
            ]
            if proof
            else []
        )
        if forged:
            raise PublishError(
                f"no source renders this: {listed(tuple(dict.fromkeys(forged)))}; see "
                "`trainwright check`, or run `trainwright render` and commit the result"
            )

    def _is_discarded(self, proof: Derivation, underived: Underived) -> bool:
        """Whether --discard-edits restores a file, as its job's record is the trusted one."""
        if not (self._options.discard_edits and underived.job):
            return False
        file = JobFile(underived.environment, underived.job)
        recorded, believed = (
            self._specs.record(file),
            proof.believed(file),
        )
        return believed is not None and believed.record == recorded

    # --- the branch that is checked out --------------------------------------------------------

    def _refuse_edits_on_disk(self, environments: tuple[str, ...]) -> None:
        """Raise an error when rendered files on disk were changed by hand and not committed."""
        for name in environments:
            inside = rendered_folder(name)
            dirty = self._repository.uncommitted(self._from_top(inside))
            folder = self._root / inside
            on_disk = filetree.hashes(folder, filetree.listing(folder))
            edits = tuple(
                f"{inside}/{job}/{file}"
                for job, files in RenderedFolder(Folder(self._root), name).sums.items()
                for file, sha in files.items()
                if self._from_top(f"{inside}/{job}/{file}") in dirty
                and on_disk.get(f"{job}/{file}", sha) != sha
            )
            if edits and not self._options.discard_edits:
                raise PublishError(f"edited by hand: {listed(edits)}; or give --discard-edits")

    def _follow(self, done: Published, tip: str) -> None:
        """Move the checked-out branch, and the rendered files on disk, to what was published."""
        if tip == self._head:
            folders = [self._from_top(rendered_folder(n)) for n in done.environments]
            put = ("restore", f"--source={done.commit}", "--staged", "--worktree", "--")
            changed = self._repository.changed(tip, "", done.commit)
            with self._repository.undone_unless_committed(changed):
                self._repository.git(*put, *folders)
                self._leave_out_again()
                reason = ("-m", "trainwright gitops publish")
                self._repository.git("update-ref", *reason, "HEAD", done.commit, self._head)
            return
        try:
            self._repository.git("merge", "--ff-only", "--quiet", done.commit)
        except GitError as error:
            raise PublishError(
                f"{done.branch} is published as {done.commit[:12]}, but the working tree cannot "
                f"follow, run `git pull`: {error}"
            ) from error

    def _leave_out_again(self) -> None:
        """Remove again what a sparse checkout leaves out, since it has just been restored."""
        if self._repository.line("config", "--type=bool", "--default=false", _SPARSE) == "true":
            self._repository.git("sparse-checkout", "reapply")


def _filled(text: str, environment: str) -> str:
    """Return a text with the environment filled in.

    Raise PublishError for any other placeholder.
    """
    filled = text.replace("{env}", environment)
    if unknown := re.search(r"\{[^{}]*\}", filled):
        raise PublishError(f'"{unknown[0]}" is not a placeholder: write {{env}}')
    return filled
