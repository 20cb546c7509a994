"""ExternalSecrets: which variables of a workload get their values from which store.

Defaults are those of the definition: https://external-secrets.io/latest/api/externalsecret/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes import durations
from trainwright.datatypes.data import Data, mapping, mappings, stated, text
from trainwright.datatypes.frozen import dataclass

GROUP, KIND = "external-secrets.io", "ExternalSecret"
_POLICIES = {"creationPolicy": "Owner", "deletionPolicy": "Retain"}
_HOW = {"conversionStrategy": "Default", "decodingStrategy": "None", "metadataPolicy": "None"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One key of the Secret that an ExternalSecret makes, and where its value comes from.

    `how` has the details of that which a spec cannot express.
    """

    secret: tuple[str, str]  # name and key
    store: str
    kind: str
    key: str
    part: str  # of the key, where it has several
    how: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.remote} of {self.kind} {self.store}"

    @property
    def remote(self) -> str:
        """The key in its store, with the property if there is one."""
        return f"{self.key}, property {self.part}" if self.part else self.key

    @property
    def spec(self) -> dict[str, Data]:
        """As `external` of a variable."""
        fields = {"store": self.store, "key": self.key, "property": self.part}
        return stated({"kind": self.kind if self.kind != "SecretStore" else "", **fields})


def secret_of(body: Mapping[str, Data]) -> str:
    """Return the name of the Secret that an ExternalSecret makes: by default its own."""
    target = mapping(mapping(body.get("spec")).get("target"))
    return text(target.get("name")) or text(mapping(body.get("metadata")).get("name"))


def is_templated(body: Mapping[str, Data]) -> bool:
    """Whether the Secret's keys are templated from fetched values, instead of being these."""
    template = mapping(mapping(mapping(body.get("spec")).get("target")).get("template"))
    return not {"data", "templateFrom"}.isdisjoint(template)


def fetched(body: Mapping[str, Data]) -> Iterator[Fetched]:
    """Yield every key that an ExternalSecret names."""
    spec = mapping(body.get("spec"))
    for entry in mappings(spec.get("data")):
        own = mapping(mapping(entry.get("sourceRef")).get("storeRef"))
        store = own or mapping(spec.get("secretStoreRef"))
        remote = mapping(entry.get("remoteRef"))
        recognized = ("key", "property")
        how = {k: v for k, v in remote.items() if k not in recognized and v != _HOW.get(k)}
        yield Fetched(
            secret=(secret_of(body), text(entry.get("secretKey"))),
            store=text(store.get("name")),
            kind=text(store.get("kind")) or "SecretStore",
            key=text(remote.get("key")),
            part=text(remote.get("property")),
            how=tuple(f"{name} {value}" for name, value in sorted(how.items())),
        )


def remainder(body: Mapping[str, Data], used: frozenset[tuple[str, str]]) -> dict[str, Data]:
    """Return an ExternalSecret's settings beyond the keys that are used, with its defaults."""
    spec = mapping(body.get("spec"))
    recognized = ("target", "refreshInterval", "secretStoreRef", "data")
    target = {**_POLICIES, **mapping(spec.get("target"))}
    interval = text(spec.get("refreshInterval")) or "1h"
    every = durations.read(interval)
    keys = tuple(fetched(body))
    return {
        **{name: value for name, value in spec.items() if name not in recognized},
        **{f"target {name}": value for name, value in target.items() if name != "name"},
        "refreshInterval": interval if every is None else f"{every}s",
        "unused": {key.secret[1]: key.remote for key in keys if key.secret not in used},
        "how": [list(key.how) for key in keys],
    }
