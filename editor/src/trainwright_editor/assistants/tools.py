"""The tools of assistants: each answers a question about a repository or its clusters as data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Annotated

from pydantic import Field

from trainwright.api import Check, Repository
from trainwright.authoring.place import kind_of
from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SelectionError, TrainwrightError
from trainwright.datatypes.layout import ENVIRONMENTS
from trainwright.files.tree import Folder
from trainwright.reports.json import finding_data
from trainwright_editor.assistants.search import search

_MOST_LINES = 2000  # of logs in one answer

Selections = Annotated[
    list[str] | None,
    Field(
        description='Environments ("prod"), jobs ("prod/llm") and globs ("*/llm"). By default all.'
    ),
]
Job = Annotated[str, Field(description='A job by environment and name: "prod/llm".')]
SpecPath = Annotated[
    str,
    Field(description="A spec from the root of the repository: environments/prod/jobs/llm.yaml."),
]
Against = Annotated[
    str,
    Field(description="The branch or commit that is merged into; the newest shared commit counts."),
]


class Tools:
    """The calls, each by the name of its method."""

    def __init__(self, repository: Repository):
        self._repository = repository

    def of_files(self) -> tuple[Callable[..., Data], ...]:
        """The tools that only read files and commits."""
        return (
            self.list_jobs,
            self.list_specs,
            self.read_spec,
            self.check,
            self.explain,
            self.plan,
            self.search_reference,
            self.propose,
        )

    def of_clusters(self) -> tuple[Callable[..., Data], ...]:
        """The tools that read a cluster, with the kubeconfig of the user who started the server."""
        return self.status, self.logs

    # --- files -----------------------------------------------------------------------------------

    def list_jobs(self) -> dict[str, Data]:
        """Every job ("env/job") with its run: object, state, target, and what outdates it."""
        return {
            name: {
                "object": run.object,
                "state": run.status,
                "target": run.target,
                "outdated": [held.path.dotted for held in run.held],
            }
            for name, run in self._repository.jobs().items()
        }

    def list_specs(self) -> dict[str, str]:
        """Every file that people write, by its path: jobs and the bases that they extend,
        environments, defaults, ledgers.
        """
        return dict(_specs(Folder(self._repository.root), ENVIRONMENTS))

    def read_spec(self, path: SpecPath) -> str:
        """The text of a spec. What looks like a credential is hidden, and not in the file."""
        from trainwright.findings.redaction import redact_lines

        tree = Folder(self._repository.root)
        if not kind_of(path) or tree.kind(path) != "file":
            raise SelectionError(f'there is no spec "{path}": `list_specs` has their paths')
        text = tree.read(path).decode(errors="replace")
        return "".join(redact_lines(text.splitlines(keepends=True)))

    def check(self, selections: Selections = None) -> dict[str, Data]:
        """Findings with their positions and remedies."""
        return _check(self._repository.check(*(selections or ())))

    def explain(
        self,
        job: Job,
        path: Annotated[
            str, Field(description='A dotted path, such as "image.tag". By default the whole spec.')
        ] = "",
    ) -> list[Data]:
        """The effective values of a job, which line set each, and what that overrode."""
        from trainwright.reports.terminal import explanation_items

        return explanation_items(self._repository.explain(job, path))

    def plan(
        self, against: Against = "origin/HEAD", selections: Selections = None
    ) -> dict[str, Data]:
        """What merging the working tree into a branch would do to each job, cost and capacity."""
        return self._planned(against, selections, {})

    def search_reference(
        self, words: Annotated[str, Field(description='Some words: "how often retries".')]
    ) -> list[Data]:
        """Fields of specs and rules of `check` that match some words, with their descriptions."""
        return search(words)

    def propose(
        self,
        path: SpecPath,
        text: Annotated[str, Field(description="The whole new text of the file.")],
        against: Against = "HEAD",
    ) -> dict[str, Data]:
        """What writing a spec would do, without writing it: the diff, the findings that it fixes
        and adds, and the plan of merging the working tree with it.

        The plan is null, with the reason, where git has no commit to compare with.
        """
        proposal = self._repository.propose(path, text)
        plan, reason = None, ""
        try:
            plan = self._planned(against, None, {path: text})
        except TrainwrightError as error:
            reason = str(error)
        return {
            "diff": proposal.diff,
            "ok": proposal.check.ok,
            "fixed": [finding_data(finding) for finding in proposal.fixed],
            "added": [finding_data(finding) for finding in proposal.added],
            "plan": plan,
            "reason": reason,
        }

    def _planned(
        self, against: str, selections: list[str] | None, edits: Mapping[str, str]
    ) -> dict[str, Data]:
        from trainwright.plan.json import render
        from trainwright.reports.style import Style

        plan = self._repository.plan(*(selections or ()), against=against, edits=edits)
        document: dict[str, Data] = json.loads(render(plan, Style(against=against, command="plan")))
        return document

    # --- clusters --------------------------------------------------------------------------------

    def status(self, selections: Selections = None) -> dict[str, Data]:
        """The state of rendered jobs in their clusters, waiting, running or failed and why, and the
        namespaces that could not be read.
        """
        from trainwright.cli.reach import Reach
        from trainwright.cluster import intent, text

        patterns = tuple(selections or ())
        places = intent.desired_states(self._repository.root, patterns)
        readings, unread = Reach(None, None, None).read(place for place in places if place.kinds)
        runs = [run for reading in readings for run in reading.runs]
        return {"runs": text.items(runs), "unread": text.unread_items(unread)}

    def logs(
        self,
        job: Job,
        rank: Annotated[
            int | None, Field(description="The pod that holds a rank. By default all pods.", ge=0)
        ] = None,
        tail: Annotated[
            int, Field(description="So many last lines of each pod.", ge=1, le=_MOST_LINES)
        ] = 100,
        previous: Annotated[
            bool, Field(description="Show the logs of the containers before their last restart.")
        ] = False,
    ) -> list[str]:
        """The last lines that the ranks of a job's run wrote, each after its rank; of a failed run
        those of the rank that failed come first.
        """
        from trainwright.cli.reach import Reach
        from trainwright.cluster.logs import LogOptions
        from trainwright.findings.visibility import visible

        session = Reach(None, None, None).run(self._repository.root, job)
        lines = session.logs(LogOptions(previous=previous, tail=tail), rank=rank, follow=False)
        shown = (f"{line.pod.label} | {visible(line.text)}" for line in lines)
        return list(islice(shown, _MOST_LINES))


def _specs(tree: Folder, folder: str) -> Iterator[tuple[str, str]]:
    """Yield the files below a folder that people write, each with its kind."""
    for entry in tree.entries(folder):
        path = f"{folder}/{entry.name}"
        if entry.kind == "folder":
            yield from _specs(tree, path) if path.count("/") <= 2 else ()
        elif kind := kind_of(path):
            yield path, kind


def _check(check: Check) -> dict[str, Data]:
    return {
        "ok": check.ok,
        "jobs": list(check.jobs),
        "findings": [finding_data(finding) for finding in check.findings],
    }
