"""Everything about a TrainingJob of BreezeML Lattice."""

from trainwright.kinds.kind import Kind

KIND = Kind(
    package=__name__,
    api_version="breezeml.ai/v1",
    kind="TrainingJob",
    plural="trainingjobs",
    expires="/spec/runPolicy/ttlSecondsAfterFinished",
    variables=("LATTICE_",),
    section="lattice",
    described=True,
)
