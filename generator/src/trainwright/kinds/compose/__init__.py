"""Everything about a Compose file, which no API server serves."""

from trainwright.datatypes.groupkind import GroupKind
from trainwright.kinds.kind import Kind

KIND = Kind(
    package=__name__,
    api_version="compose-spec",
    kind="Compose",
    aliases=(GroupKind("", ""),),  # files that Docker reads do not state a kind
)
