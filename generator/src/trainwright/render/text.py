"""What a build writes, or would write, as text for a terminal."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from trainwright.datatypes.data import mapping
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.listing import first, listed, plural
from trainwright.files.filetree import Changes
from trainwright.findings.visibility import visible
from trainwright.render.build import Build, EnvironmentBuild
from trainwright.runs.record import Record
from trainwright.specs.merge import BUILT_IN


def summary(build: Build, verb: str) -> str:
    """Return a line per environment, on its jobs and its changed files, and then its new runs."""
    width = max((len(e.name) for e in build.environments), default=0)
    return "".join(
        f"{e.name:<{width}}  {plural(len(e.jobs), 'job'):>9}  {counts(e, verb)}\n{_begun(e)}"
        for e in build.environments
    )


_MOST = 8  # runs of an environment that are named


def _begun(build: EnvironmentBuild) -> str:
    """Return the runs that begin, one per line, replacements of other runs first, and then those
    that git no longer has.
    """
    if build.changes is None:
        return ""
    runs = sorted(build.begun, key=lambda run: (not run.replaces, run.object))
    lines = [*first(runs, _MOST, lambda run: _begins(run, build.staying))]
    lines += first(build.left, _MOST, lambda name: _ends(name, build.staying))
    return "".join(f"  {line}\n" for line in lines)


def _begins(run: Record, staying: Container[str]) -> str:
    suspended = run.state == "suspended"
    if run.replaces and run.replaces not in staying:
        return f"{run.object} will replace {run.replaces}{', suspended' * suspended}"
    begins = f"{run.object} will {'be added as suspended' if suspended else 'start'}"
    return f"{begins}; {_ends(run.replaces, staying)}" if run.replaces else begins


def _ends(name: str, staying: Container[str]) -> str:
    ends = "stays in the cluster until it is deleted" if name in staying else "will be deleted"
    return f"{name} {ends}"


def runtime_needed(build: Build) -> str:
    """Return that images need our entrypoint, of jobs that leave their launcher to the default and
    begin with an image that no run of the environment has; "" if there are none.
    """
    jobs = [
        str(file) for environment in build.environments for file in _unproven(build, environment)
    ]
    if not jobs:
        return ""
    images = "the image needs" if len(jobs) == 1 else "the images need"
    return (
        f"{listed(jobs)}: {images} trainwright-runtime, which starts jobs without `launcher`; "
        "`launcher: torchrun` takes any image (`trainwright explain job launcher`).\n"
    )


def _unproven(build: Build, environment: EnvironmentBuild) -> Iterator[JobFile]:
    begun = {run.object for run in environment.begun if not run.replaces}
    known = {_image(run) for run in environment.runs.values() if run.object not in begun}
    for file in environment.jobs if begun else ():
        run = environment.runs.get(file.name)
        if run is None or run.object not in begun or _image(run) in known:
            continue
        launched = mapping(run.spec.get("entrypoint")).keys() & {"script", "module", "inline"}
        is_ours = "trainwright" in _image(run) or run.spec.get("launcher") != "trainwright"
        if launched and not is_ours:
            chosen = build.workspace.spec(file).setter("/launcher").label != BUILT_IN
            yield from () if chosen else (file,)


def _image(run: Record) -> str:
    return str(mapping(run.spec.get("image")).get("repository", ""))


def outdated(build: Build) -> str:
    """Return which jobs have runs without the edits since the base, and what applies these; then
    how many were outdated before; "" if none are.

    An edit of a base or of an environment changes no rendered file, and "up to date" alone would
    leave the impression that it had no effect. Where git has no such edit, no job is looked at.
    """
    if build.derivation is not None and not build.derivation.specs_differ:
        return ""
    named: list[str] = []
    before = 0
    for file in _behind(build):
        if build.was_outdated(file):
            before += 1
        else:
            named.append(str(file))
        if len(named) > _MOST:
            break
    were = "was" if before == 1 else "were"
    earlier = f"{plural(before, 'job')} {were} outdated before: see `trainwright list jobs`.\n"
    return _outdated(named) + (earlier if before and len(named) <= _MOST else "")


def _outdated(named: Sequence[str]) -> str:
    if not named:
        return ""
    if len(named) > _MOST:
        return (
            f"More than {_MOST} jobs are outdated until their next run: `trainwright list jobs` "
            "names them, `trainwright rerun` applies the changes.\n"
        )
    are = "is outdated until its" if len(named) == 1 else "are outdated until their"
    command = f"trainwright rerun {' '.join(named)}"
    return f"{', '.join(named)} {are} next run: `{command}` applies the change.\n"


def _behind(build: Build) -> Iterator[JobFile]:
    """Yield jobs whose runs are outdated. To look at one of these takes parsing its spec."""
    for environment in build.environments:
        started = {run.object for run in environment.begun}
        for file in environment.jobs:
            run = environment.runs.get(file.name)
            if run is not None and run.object in started:
                continue
            if build.is_outdated(file):
                yield file


def counts(environment: EnvironmentBuild, verb: str) -> str:
    """Return what happened to an environment's files."""
    changes = environment.changes
    if changes is None:
        return "not rendered: it has errors"
    if not changes:
        return f"up to date in {environment.folder}"
    counts = (
        (len(changes.added), "added"),
        (len(changes.changed), "changed"),
        (len(changes.removed), "removed"),
    )
    done = ", ".join(f"{count} {word}" for count, word in counts if count)
    return f"{verb} in {environment.folder}: {done}"


def drift(environment: EnvironmentBuild) -> Iterator[str]:
    """Yield a line for each file that is not as it should be, and why."""
    changes = environment.changes or Changes({}, {}, ())
    for path in sorted({*changes.written, *changes.removed}):
        if path in environment.edited:
            state = "edited by hand"
        elif path in changes.added:
            state = "missing"
        elif path in changes.changed:
            state = "out of date"
        else:
            state = "no longer rendered"
        yield visible(f"{environment.folder}/{path}: {state}")
