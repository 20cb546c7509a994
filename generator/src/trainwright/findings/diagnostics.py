"""Findings about what people wrote: files, schema, references, waivers.

Rules about rendered objects live in `rules/`; these cannot be, since there is no object yet.
"""

from __future__ import annotations

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.model import Finding, Location, Related, Severity
from trainwright.datatypes.pointer import Pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One kind of mistake; `remedy` is used when the finding has nothing more precise to say.

    Those that are `waivable` have their weight set in environment.yaml, as rules have.
    """

    id: str
    name: str
    summary: str
    remedy: str
    effect: str = ""
    severity: Severity = Severity.ERROR
    waivable: bool = False

    def at(
        self,
        place: Location,
        message: str,
        *,
        remedy: str = "",
        subject: str = "",
        path: Pointer = Pointer(),  # noqa: B008 - it is a string
        note: str = "",
        related: tuple[Related, ...] = (),
    ) -> Finding:
        """A finding of this kind at a place."""
        return Finding(
            rule=self.id,
            severity=self.severity,
            place=place,
            message=message,
            remedy=remedy or self.remedy,
            subject=subject,
            path=path,
            note=note,
            effect=self.effect,
            related=related,
        )


SYNTAX = Diagnostic(
    id="TW001",
    name="invalid-yaml",
    summary="The file is YAML.",
    remedy="Fix the syntax at this position.",
)
DUPLICATE_KEY = Diagnostic(
    id="TW002",
    name="duplicate-key",
    summary="No mapping has the same key twice.",
    effect="YAML readers keep the last value and drop the first without a word.",
    remedy="Keep one of the two.",
)
UNSAFE = Diagnostic(
    id="TW003",
    name="unsafe-yaml",
    summary="No custom tags, no unbounded anchors, no extreme nesting or size.",
    remedy="Write plain YAML: mappings, lists, strings, numbers and booleans.",
)
ENCODING = Diagnostic(
    id="TW004",
    name="not-utf-8",
    summary="The file is UTF-8 text.",
    remedy="Save the file as UTF-8.",
)
SHAPE = Diagnostic(
    id="TW005",
    name="not-one-mapping",
    summary="The file holds exactly one document, and it is a mapping.",
    remedy="Write one mapping, starting with apiVersion and kind.",
)
EXTENDS = Diagnostic(
    id="TW006",
    name="invalid-extends",
    summary="`extends` names another job spec under environments/, without a cycle.",
    remedy='Write `extends: <folder>/<job>`, for example "base/mnist".',
)
NAME = Diagnostic(
    id="TW007",
    name="name-mismatch",
    summary="A job's name is the name of its file.",
    effect="A reviewer looking for the job by name would not find its file.",
    remedy="Rename the file or the job, so that both agree.",
)
LAYOUT = Diagnostic(
    id="TW008",
    name="misplaced-file",
    summary="environments/ holds <env>/environment.yaml and <env>/jobs/<job>.yaml, as real files.",
    remedy="Move or rename the file to environments/<env>/jobs/<job>.yaml.",
)
SCHEMA = Diagnostic(
    id="TW010",
    name="schema-violation",
    summary="The file follows its JSON Schema.",
    remedy="Correct the value; `trainwright explain` shows where it comes from.",
)
RENDERED_SCHEMA = Diagnostic(
    id="TW011",
    name="rendered-schema-violation",
    summary="The rendered object follows the schema of its kind and Kubernetes version.",
    effect="The API server refuses the object.",
    remedy="Correct the field that sets this value.",
)
CHART = Diagnostic(
    id="TW012",
    name="refused-by-chart",
    summary="The chart accepts the values.",
    remedy="Correct the field that sets this value.",
)
CHART_VERSION = Diagnostic(
    id="TW013",
    name="chart-changed-without-version",
    summary="A chart that changes gets a new version.",
    effect="A pull of this version gets one content or the other, depending on when.",
    remedy="Raise `version` in Chart.yaml.",
)
NO_SCHEMA = Diagnostic(
    id="TW014",
    name="schema-missing",
    summary="There is a schema for every kind.",
    effect="Whether the fields of these objects exist is not checked.",
    remedy="Give the folder of its CustomResourceDefinition with --crds.",
    severity=Severity.NOTE,
)
CEL = Diagnostic(
    id="TW015",
    name="cel-rule-violated",
    summary="The object follows the rules (x-kubernetes-validations) of its definition.",
    effect="The API server refuses the object.",
    remedy="Change what the rule speaks of.",
)
CEL_SKIPPED = Diagnostic(
    id="TW016",
    name="cel-rule-unevaluated",
    summary="Every rule of a definition can be evaluated here.",
    effect="Only the API server can evaluate this rule.",
    remedy="Try the object with `kubectl apply --dry-run=server`.",
    severity=Severity.NOTE,
)
REFUSED = Diagnostic(
    id="TW017",
    name="edit-refused-by-api",
    summary="The API server of the environment's cluster accepts the object.",
    effect="The sync fails, and nothing starts.",
    remedy="Correct the field that sets this value, or what the cluster lacks.",
)
REFERENCE = Diagnostic(
    id="TW020",
    name="unknown-reference",
    summary="Pools, queues, targets, volumes and references that a job names exist.",
    remedy="Use a name that exists, or declare it in environment.yaml.",
)
UNSUPPORTED = Diagnostic(
    id="TW021",
    name="unsupported-by-target",
    summary="The target can express everything in the job.",
    effect="Rendered all the same it would be ignored, or refused by the API server.",
    remedy="Choose a target that supports it, or remove the field.",
)
CONTRADICTION = Diagnostic(
    id="TW022",
    name="contradiction",
    summary="The fields of a job agree with each other.",
    remedy="Change one of the two fields.",
)
CAPACITY = Diagnostic(
    id="TW023",
    name="pool-cannot-provide",
    summary="A job fits the pool it names.",
    effect="The pods stay Pending for ever.",
    remedy="Ask for less, or choose a larger pool.",
)
NAME_LENGTH = Diagnostic(
    id="TW024",
    name="name-too-long",
    summary="Every pod and service name that the job leads to fits 63 characters.",
    effect="The pods start, their services are refused, and the ranks never meet.",
    remedy="Shorten the job's name.",
)
PLACED_BY_FLAVOR = Diagnostic(
    id="TW025",
    name="pool-left-to-flavor",
    summary="The node selector and tolerations of its pool are in the pods of a job.",
    effect="In a Kueue queue the ResourceFlavor decides them (of a trainjob, the tolerations): the "
    "pods go to every node that has the resources, where the flavor has no node labels, and to no "
    "tainted one, where it has no tolerations.",
    remedy="Give the ResourceFlavor the nodeLabels and tolerations of the pool.",
    severity=Severity.NOTE,
    waivable=True,
)
RESERVED = Diagnostic(
    id="TW026",
    name="reserved-name",
    summary="Variables and labels that a job's kind sets itself are left to it.",
    effect="Pods have one value of each: what is written here would be lost, or refused.",
    remedy="Remove it, or use another name.",
)
NOT_ALLOWED = Diagnostic(
    id="TW027",
    name="not-allowed-here",
    summary="What takes more of a node or a cluster than its share is allowed by the environment.",
    effect="The job gets more of the host, its devices or the API server than others.",
    remedy="Remove it, or add it to allow in environment.yaml.",
)
FLAG_LIST = Diagnostic(
    id="TW028",
    name="ambiguous-flag-list",
    summary="How a list reaches the program's parser is set where parsers differ.",
    effect="The option is repeated, and most parsers keep the last value: one with nargs reads "
    "--data-path=0.5 --data-path=a as a alone, and trains on other data.",
    remedy="Write {words: [...]} for --k a b, {repeat: [...]} for --k=a --k=b, {comma: [...]} for "
    "--k=a,b; or flagStyle: {lists: words} for all flags.",
    severity=Severity.WARNING,
    waivable=True,
)
FILE = Diagnostic(
    id="TW029",
    name="unusable-file",
    summary="The files that travel with a run are in the repository, and fit into a ConfigMap.",
    remedy="Name a file of the repository, by its path from the folder that holds environments/.",
)
WAIVER_EXPIRED = Diagnostic(
    id="TW030",
    name="expired-waiver",
    summary="Waivers are used before their date.",
    remedy="Fix the finding, or extend the waiver with a fresh reason.",
)
WAIVER_UNUSED = Diagnostic(
    id="TW031",
    name="unused-waiver",
    summary="Every waiver waives something.",
    remedy="Delete the waiver.",
    severity=Severity.WARNING,
)
UNKNOWN_RULE = Diagnostic(
    id="TW032",
    name="unknown-rule",
    summary="Severities and waivers name rules that exist and may be waived.",
    remedy="Run `trainwright list rules` for the ids.",
)

WIRING = Diagnostic(
    id="TW040",
    name="invalid-gitops-settings",
    summary="An environment that is wired sets what its GitOps engine reads, and nothing else.",
    effect="The engine would find nothing, or would not do what is written.",
    remedy="Correct `gitops` in environment.yaml.",
)
SHARED_OBJECT = Diagnostic(
    id="TW041",
    name="object-of-two-environments",
    summary="No two environments in one cluster render the same object into one namespace.",
    effect="In one cluster, two engines own one run: one fails, or deletes it for the other.",
    remedy="Give each a namespace of its own; in different clusters nothing is wrong.",
    severity=Severity.WARNING,
)
UNPINNED_CHART = Diagnostic(
    id="TW042",
    name="chart-not-pinned",
    summary="Each run that an engine renders with the chart keeps the chart that it began with.",
    effect="They take the chart that environment.yaml names: another one would change what trains.",
    remedy="Keep gitops.chart as it is until they have ended, or let them restart with "
    "`trainwright rerun`.",
    severity=Severity.WARNING,
)
LEDGER = Diagnostic(
    id="TW050",
    name="ledger-mismatch",
    summary="Each run in a ledger is the one that its job and its spec give.",
    effect="A finished run would train again, or one that never ran would not start.",
    remedy="Let `trainwright retire` write the ledger; remove what it did not write.",
)
LEDGER_JOB = Diagnostic(
    id="TW051",
    name="ledger-entry-without-job",
    summary="Runs in a ledger belong to jobs of the environment.",
    effect="Should the job come back with the same spec, this run of it counts as finished.",
    remedy="Leave it as a record, or remove the line.",
    severity=Severity.NOTE,
)
RUN = Diagnostic(
    id="TW052",
    name="invalid-run-record",
    summary="A recorded run takes an edit of its `state`, and its files are whole.",
    effect="Nothing can be rendered for the job without touching a run that may be training.",
    remedy="Restore environments/<env>/rendered/<job> from git, or begin a new run with "
    "`trainwright rerun`.",
)
OBJECT_COLLISION = Diagnostic(
    id="TW053",
    name="object-collision",
    summary="No two jobs of a namespace render the same object.",
    effect="`kubectl kustomize` refuses the whole environment, or one job's object replaces the "
    "other's.",
    remedy="Rename one of the jobs, or the volume that its claim is named after.",
)
UNRECORDED = Diagnostic(
    id="TW054",
    name="run-record-missing",
    summary="The run of a job that was rendered before is recorded, here or in git's history, and "
    "listed in the ledger when it has finished.",
    effect="The job may be training, or have finished: rendering it anew would train it again.",
    remedy="Restore its record, or its line in the ledger, from git, fetch the history that has it "
    "(`git fetch --unshallow`), or begin a new run with `trainwright render --new-runs` or "
    "`trainwright gitops publish --new-runs`.",
)
OWN_OBJECT = Diagnostic(
    id="TW055",
    name="object-out-of-place",
    summary="Additional objects belong to the namespace of their environment, and are neither "
    "Secrets nor runs.",
    effect="It is not rendered, and no GitOps engine applies it.",
    remedy="Correct it, or take it out of objects/.",
)

HELD = Diagnostic(
    id="TW056",
    name="edit-for-the-next-run",
    summary="An edit of how a run is operated reaches the run.",
    effect="The run stays as it is, and only its next one has the edit.",
    remedy="Begin another run with `trainwright rerun` if it cannot wait, or take the edit back.",
    severity=Severity.NOTE,
    waivable=True,
)
UNDERIVED = Diagnostic(
    id="TW057",
    name="underived-file",
    summary="Every rendered file is the base's, or is rendered from the sources of a commit of the "
    "branch.",
    effect="What is applied is not what the job specs have, and no record or digest makes it so.",
    remedy="Run `trainwright render` and commit the result.",
)
UNCOMPARED = Diagnostic(
    id="TW058",
    name="no-base",
    summary="The clone has the commit at which its branch began.",
    effect="Rendered files are not proved: who wrote them may have written anything.",
    remedy="Set `fetch-depth: 0` in actions/checkout, or run `git fetch --unshallow`, or name the "
    "branch that this one is merged into with `--against`.",
    severity=Severity.NOTE,
)

ADOPTED = Diagnostic(
    id="TW059",
    name="invalid-adopted-object",
    summary="An adopted object is a training workload of its environment's namespace, in the state "
    "of its job.",
    effect="Nothing is rendered for the job; the object in the cluster stays as it is.",
    remedy="Take the file from git as `trainwright adopt` wrote it, or remove it with the job.",
)
SAME_AS_INHERITED = Diagnostic(
    id="TW060",
    name="redundant-value",
    summary="A job's file repeats nothing that the job inherits anyway.",
    effect="A change of what is inherited will not reach this job, which is rarely meant.",
    remedy="Remove the key.",
    severity=Severity.NOTE,
    waivable=True,
)
UNREAD = Diagnostic(
    id="TW061",
    name="ineffective-override",
    summary="An override changes what is rendered.",
    effect="The run is the same without it, to the byte, which its author may not expect.",
    remedy="Remove the key, or change what it is meant to change.",
    severity=Severity.WARNING,
    waivable=True,
)
DROPPED_ITEMS = Diagnostic(
    id="TW063",
    name="list-override-drops-items",
    summary="A list that overrides another has all of its items.",
    effect="Lists replace, they do not merge: what was inherited is gone from this job.",
    remedy="Repeat the inherited items, or waive the finding where they are not wanted.",
    severity=Severity.WARNING,
    waivable=True,
)

PATCH_OF_FIELD = Diagnostic(
    id="TW070",
    name="field-set-by-patch",
    summary="A podPatch sets what no field of a job is for.",
    effect="Layers add to a field by name, and targets and plans know it; of a patch they know the "
    "result.",
    remedy="Write it in the field.",
    severity=Severity.WARNING,
    waivable=True,
)
PATCH_OVERRULES = Diagnostic(
    id="TW071",
    name="patch-overrules-field",
    summary="A podPatch changes nothing that plans, quotas, the lock of images or the target read.",
    effect="What is planned, counted and pinned would not be what runs.",
    remedy="Write it in the field.",
)

ENGINE_FILE = Diagnostic(
    id="TW080",
    name="engine-reads-more",
    summary="Nothing that lies beside rendered files changes what a GitOps engine makes of them.",
    effect="The engine applies something else than what was rendered and reviewed, or nothing.",
    remedy="Remove it, or the line; what is to be different goes into the specs.",
)
HIDDEN_FROM_REVIEW = Diagnostic(
    id="TW081",
    name="hidden-from-review",
    summary="A forge shows reviewers every change of specs and manifests.",
    effect="A pull request that changes what runs looks as if it did not: its diff is folded, or "
    "not shown at all.",
    remedy="Take the attribute away, or narrow the pattern to records and values.",
    severity=Severity.WARNING,
)

DIAGNOSTICS: dict[str, Diagnostic] = {
    found.id: found for found in tuple(globals().values()) if isinstance(found, Diagnostic)
}
