"""The kind type: everything that is known of one workload kind, by the folder that says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainwright.frozen import dataclass
from trainwright.groupkind import GroupKind
from trainwright.model import Manifest

if TYPE_CHECKING:  # each part is imported when it is asked for: most verbs need few of them
    from trainwright.kinds.health import Health
    from trainwright.kinds.reading import Reader
    from trainwright.kinds.state import Status
    from trainwright.kinds.target import Target
    from trainwright.pods.pod import Operator
    from trainwright.rule_model.defaults import Default
    from trainwright.rule_model.edit import EditRule
    from trainwright.rule_model.edit_row import EditRow
    from trainwright.rule_model.rule import Rule
    from trainwright.rule_model.subject import Finder


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that another one needs, and the pointer at which it is referred to."""

    kind: GroupKind
    name: str
    pointer: str


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One workload kind. What is short is said here, the rest in the modules of its `package`.

    `plural` is its name in the API, empty for what no API server serves; `aliases` are other
    identities of its objects. `container` is the one that trains, empty for the first. Fields are
    JSON pointers, with * for any index: `suspend` where Kueue suspends a run, empty for what Kueue
    does not know, and `placed` the pod templates of a run of ours, into which it writes where they
    go; `filled` what webhooks fill in; `expires` a time to live; `processes` how many of them a
    pod starts.

    `written` and `written_by_kueue` are jq expressions of what others write into its lists.
    `variables` begin the names that its controller declares in every container. `domains` are those
    of labels and annotations that its controllers write; `name_labels` of its pods hold the name of
    the object, `attempt_label` how often all pods were made anew. `carrier` is the label that names
    the object on pods which may have none of git's labels: those of a runtime that is the
    cluster's. `refers` names the objects without which it has no pods, `runtimes` are their kinds,
    which the modules here are about as well. `section` is the part of a job spec that no other
    target reads. `described` says whether schemas/kinds has every field of it,
    `own_name_rule` whether its own rules hold its names, `awaited` whether Argo CD and Flux know by
    themselves when it is done, and wait for that. `immutable_template` says whether its API keeps a
    running pod template as it is, so that a file with placement of its own, which would undo what
    Kueue has written there, cannot be applied again.
    """

    package: str
    api_version: str
    kind: str
    plural: str = ""
    aliases: tuple[GroupKind, ...] = ()
    container: str = ""
    suspend: str = ""
    placed: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    expires: str = ""
    processes: str = ""
    variables: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    name_labels: tuple[str, ...] = ()
    attempt_label: str = ""
    carrier: str = ""
    refers: Callable[[Manifest], tuple[Reference, ...]] | None = None
    runtimes: tuple[GroupKind, ...] = ()
    section: str = ""
    described: bool = False
    own_name_rule: bool = False
    awaited: bool = False
    immutable_template: bool = False
    written: tuple[str, ...] = ()
    written_by_kueue: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.kind

    @property
    def name(self) -> str:
        """What it is called as a target."""
        return self.package.rpartition(".")[2]

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    @property
    def target(self) -> Target:
        target: Target = self._part("target", "TARGET")
        return target

    @property
    def operator(self) -> Operator:
        operator: Operator = self._part("operator", "OPERATOR")
        return operator

    @property
    def status(self) -> Status:
        status: Status = self._part("status", "STATUS")
        return status

    @property
    def reader(self) -> Reader:
        """How its objects are imported."""
        reader: Reader = self._part("import_", "READER")
        return reader

    @property
    def templates(self) -> Mapping[GroupKind, Finder]:
        """Where its objects, and those that they refer to, have their pod templates."""
        templates: Mapping[GroupKind, Finder] = self._part("pod_templates", "TEMPLATES")
        return templates

    @property
    def rules(self) -> tuple[Rule, ...]:
        rules: tuple[Rule, ...] = self._part("rules", "RULES")
        return rules

    @property
    def edits(self) -> tuple[EditRow, ...]:
        """What becomes of edits of its objects, and of those that they refer to."""
        edits: tuple[EditRow, ...] = self._part("edits", "EDITS")
        return edits

    @property
    def defaults(self) -> Mapping[GroupKind, tuple[Default, ...]]:
        """What servers write where those objects say nothing."""
        defaults: Mapping[GroupKind, tuple[Default, ...]] = self._part("edits", "DEFAULTS")
        return defaults

    @property
    def edit_rules(self) -> tuple[EditRule, ...]:
        """The rules that report such edits."""
        edit_rules: tuple[EditRule, ...] = self._part("edits", "EDIT_RULES")
        return edit_rules

    @property
    def health(self) -> Health:
        health: Health = self._part("health", "HEALTH")
        return health

    def _part(self, module: str, name: str) -> Any:
        return getattr(import_module(f"{self.package}.{module}"), name)
