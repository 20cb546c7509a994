"""The type of a workload kind, with all that is particular to it, as its folder defines it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from trainwright.datatypes.frozen import cached_property, dataclass
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.manifest import Manifest

if TYPE_CHECKING:  # each part is imported on first use: most verbs need few of them
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

    def __set_name__(self, _: type[Kind], attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, kind: Kind, _: type[Kind]) -> Value:
        value: Value = kind.part(self._module, self._name)
        vars(kind)[self._attribute] = value
        return value


@dataclass(frozen=True, slots=True)
class Reference:
    """An object that another one needs, and the pointer of the reference to it."""

    kind: GroupKind
    name: str
    pointer: str


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One workload kind: the short facts are here, the rest in the modules of its `package`.

    Fields of objects are JSON pointers, with * for any index.
    """

    package: str
    api_version: str
    kind: str
    plural: str = ""  # its name in the API; empty if no API server serves it
    aliases: tuple[GroupKind, ...] = ()  # other identities of its objects
    container: str = ""  # the container that trains; empty for the first
    # The field by which Kueue suspends a run; empty if Kueue does not know the kind.
    suspend: str = ""
    # The pod templates of our runs, into which Kueue writes where the pods go.
    placed: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()  # fields that webhooks fill in
    expires: str = ""  # the field with a time to live
    # Prefixes of the variables that its controller sets in every container.
    variables: tuple[str, ...] = ()
    # Prefixes of the labels and annotations that its controllers write.
    domains: tuple[str, ...] = ()
    name_labels: tuple[str, ...] = ()  # labels of its pods with the name of the object
    attempt_label: str = ""  # the label of its pods with how often all of them were made anew
    group_label: str = ""  # the label with the group of pods whose names end at random
    # The label with the name of the object on pods that may lack the labels in git, since their
    # runtime is the cluster's.
    carrier: str = ""
    # Returns the objects without which it has no pods.
    refers: Callable[[Manifest], tuple[Reference, ...]] | None = None
    # The kinds of those objects, which the modules of the package are about as well.
    runtimes: tuple[GroupKind, ...] = ()
    section: str = ""  # the part of a job spec that no other target reads
    described: bool = False  # whether schemas/kinds has all its fields
    own_name_rule: bool = False  # whether its own rules check its names
    # Whether Argo CD and Flux know by themselves when it is done, and wait for that.
    awaited: bool = False
    immutable_template: bool = False  # whether its API keeps a running pod template as it is
    # Fields of its pods that are left to the ResourceFlavor in a queue of Kueue: what Kueue writes
    # there does not go with a file that has them.
    left_to_flavor: tuple[str, ...] = ()
    integration: str = ""  # the row of `upstream` about Kueue's integration
    ready_when_running: bool = False  # whether Kueue counts no pods of it
    # jq expressions of what others, and Kueue, write into its lists.
    written: tuple[str, ...] = ()
    written_by_kueue: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.kind

    @property
    def name(self) -> str:
        """The kind's name as a target."""
        return self.package.rpartition(".")[2]

    @property
    def is_served(self) -> bool:
        """Whether an API server serves it, so that a GitOps engine applies its objects."""
        return bool(self.plural)

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    # Each part is in the module of its name, and imported on first use.
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
