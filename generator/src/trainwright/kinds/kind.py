"""The kind type: everything that is known of one workload kind, whose folder defines it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from trainwright.datatypes.frozen import cached_property, dataclass
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.manifest import Manifest

if TYPE_CHECKING:  # each part is imported when it is asked for: most verbs need few of them
    from trainwright.kinds.health import Health
    from trainwright.kinds.reading import Reader
    from trainwright.kinds.state import Status
    from trainwright.kinds.target import Target
    from trainwright.objects.pods.pod import Operator
    from trainwright.rule_model.defaults import Default
    from trainwright.rule_model.edit import EditRule
    from trainwright.rule_model.edit_row import EditRow
    from trainwright.rule_model.rule import Rule
    from trainwright.rule_model.subject import Finder


Value = TypeVar("Value")


class Part(Generic[Value]):
    """A constant of a kind's package, by default in the module of its name in lower case."""

    def __init__(self, name: str, module: str = "") -> None:
        self._module, self._name = module or name.lower(), name

    def __get__(self, kind: Kind, _: type[Kind]) -> Value:
        value: Value = kind.part(self._module, self._name)
        return value


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that another one needs, and the pointer at which it is referred to."""

    kind: GroupKind
    name: str
    pointer: str


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One workload kind: the short facts are here, the rest in the modules of its `package`.

    `plural` is its name in the API, empty if no API server serves it; `aliases` are other
    identities of its objects. `container` is the one that trains, empty for the first. Fields are
    JSON pointers, with * for any index: `suspend` by which Kueue suspends a run, empty if Kueue
    does not know the kind; `placed` the pod templates of our runs, into which Kueue writes where
    the pods go; `filled` what webhooks fill in; `expires` a time to live.

    `written` and `written_by_kueue` are jq expressions of what others write into its lists.
    `variables` are prefixes of the variables that its controller sets in every container, `domains`
    those of the labels and annotations that its controllers write. Of its pods' labels,
    `name_labels` hold the name of the object, `attempt_label` how often all pods were made anew.
    `carrier` is the label that names the object on pods that may lack the labels in git, since
    their runtime is the cluster's. `refers` names the objects without which it has no pods,
    `runtimes` are their kinds, which the modules here are about as well. `section` is the part of a
    job spec that no other target reads. `described` says whether schemas/kinds has all its fields,
    `own_name_rule` whether its own rules hold its names, `awaited` whether Argo CD and Flux know by
    themselves when it is done, and wait for that. `immutable_template` says whether its API keeps a
    running pod template as it is. `left_to_flavor` are the fields of its pods that are left to the
    ResourceFlavor in a queue of Kueue, since what Kueue writes there does not go with a file that
    has them. `integration` is the row of `upstream` about Kueue's integration, and
    `ready_when_running` whether Kueue counts no pods of it.
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
    left_to_flavor: tuple[str, ...] = ()
    integration: str = ""
    ready_when_running: bool = False
    written: tuple[str, ...] = ()
    written_by_kueue: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.kind

    @property
    def name(self) -> str:
        """The kind's name as a target."""
        return self.package.rpartition(".")[2]

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    # Each part is in the module of its name, and imported when it is asked for.
    target: ClassVar[Part[Target]] = Part("TARGET")
    operator: ClassVar[Part[Operator]] = Part("OPERATOR")
    status: ClassVar[Part[Status]] = Part("STATUS")
    health: ClassVar[Part[Health]] = Part("HEALTH")
    # How its objects are imported.
    reader: ClassVar[Part[Reader]] = Part("READER", module="import_")
    # Where its objects, and those that they refer to, have their pod templates.
    templates: ClassVar[Part[Mapping[GroupKind, Finder]]] = Part(
        "TEMPLATES", module="pod_templates"
    )
    # The outcome of edits of those objects, the defaults that servers fill in, and the rules that
    # report such edits.
    edits: ClassVar[Part[tuple[EditRow, ...]]] = Part("EDITS")
    defaults: ClassVar[Part[Mapping[GroupKind, tuple[Default, ...]]]] = Part(
        "DEFAULTS", module="edits"
    )
    edit_rules: ClassVar[Part[tuple[EditRule, ...]]] = Part("EDIT_RULES", module="edits")

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The kind's own rules, which are about this kind unless they name another."""
        own_rules: tuple[Rule, ...] = self.part("rules", "RULES")
        return tuple(replace(rule, kinds=rule.kinds or (self.group_kind,)) for rule in own_rules)

    def part(self, module: str, name: str) -> Any:
        return getattr(import_module(f"{self.package}.{module}"), name)
