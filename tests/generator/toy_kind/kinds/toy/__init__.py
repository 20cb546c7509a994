"""Everything about a Toy: a kind that tests add from outside."""

from trainwright.kinds.kind import Kind

KIND = Kind(
    package=__name__,
    api_version="toys.example.com/v1",
    kind="Toy",
    plural="toys",
    container="toy",
    described=True,
)
