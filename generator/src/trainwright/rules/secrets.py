"""Credentials written in a manifest, found by name, by known form and by entropy.

No message ever contains the value.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, dig, mapping, mappings, text, words
from trainwright.datatypes.groupkind import CONFIGMAP, EXTERNALSECRET, SEALEDSECRET, SECRET
from trainwright.datatypes.job import CONTAINERS
from trainwright.datatypes.listing import article
from trainwright.datatypes.pointer import Pointer, leaves
from trainwright.findings.credentials import RANDOM, given, kind, named, shows, suspicious
from trainwright.kinds import OWNERS
from trainwright.objects.pods.storage import written
from trainwright.objects.pods.template import Container
from trainwright.rule_model.rule import defined_in, error
from trainwright.rule_model.subject import Hit, Subject

CREDENTIAL = "TW710"
_BY_NAME = "a credential, by its name"
_FLAG = re.compile(r"--?(\w[\w.-]*)(?:=(.*))?", re.DOTALL)


@error(CREDENTIAL, spec=Pointer("/env"), per_pod=True)
def inline_credential(subject: Subject) -> Iterator[Hit]:
    if subject.kind == SECRET:
        return
    if subject.kind == CONFIGMAP:
        yield from _in_files(subject)
    containers = _containers(subject)
    described = (above for _, above in _described(subject))
    metadata = (words(above[field]) for above in described for field in _FIELDS if field in above)
    # A line between the texts ends whatever the one before it begins.
    if not suspicious("\n-\n".join((*map("\n".join, metadata), *map(written, containers)))):
        return
    yield from _in_metadata(subject)
    for container in containers:
        if suspicious(written(container)):
            yield from _in_variables(subject, container)
            yield from _in_words(subject, container.command_line, container.pointer)


def _containers(subject: Subject) -> tuple[Container, ...]:
    """Return the containers of an object; for an unknown kind, whatever lies under `containers` or
    `initContainers`.

    A runtime that a job here refers to has none of its own: they are looked at as the job's.
    """
    if subject.kind in OWNERS or subject.pod_templates:
        return tuple(c for template in subject.pod_templates for c in template.containers)
    return tuple(_shaped(subject.body, Pointer()))


def _shaped(data: Data, at: Pointer) -> Iterator[Container]:
    for key, value in data.items() if isinstance(data, Mapping) else ():
        if key in ("containers", "initContainers"):
            for index, item in enumerate(mappings(value)):
                yield Container(str(at / str(key) / index), item)
        else:
            yield from _shaped(value, at / str(key))
    for index, item in enumerate(data) if isinstance(data, list) else ():
        yield from _shaped(item, at / index)


def in_spec(data: Mapping[str, Data]) -> Iterator[Hit]:
    """Yield credentials in what no object has of a spec, such as reasons of waivers."""
    for pointer, value in leaves({k: v for k, v in data.items() if k not in _RENDERED}):
        for item in value if isinstance(value, list) else [value]:
            if (credential := kind(text(item))) and not _is_rendered(pointer.parts):
                yield Hit("", f"{pointer.dotted} holds {article(credential)}", spec=pointer)


def _is_rendered(at: tuple[str, ...]) -> bool:
    """Whether a value is one of an init container or sidecar that the rendered objects have."""
    return at[0] in CONTAINERS and bool(_RENDERED & {*at[2:3]})


# Fields of a job, or of a container beside it, whose values are checked in the rendered objects.
_RENDERED = frozenset({"annotations", "args", "command", "entrypoint", "env", "flags", "labels"})


_FIELDS = {"annotations": "annotation", "labels": "label"}


def _described(subject: Subject) -> Iterator[tuple[str, Mapping[str, Data]]]:
    """The metadata of an object and of its pods, and where it is."""
    yield "/metadata", subject.metadata
    for template in subject.pod_templates:
        yield f"{template.pointer}/metadata", template.metadata


def _in_metadata(subject: Subject) -> Iterator[Hit]:
    """Yield a hit for each label or annotation with a credential."""
    for above, holder in _described(subject):
        for field, what in _FIELDS.items():
            for key, value in mapping(holder.get(field)).items():
                credential = kind(text(value))
                if credential or _given_away(subject, str(key), text(value)):
                    message = (
                        f"the {what} {key} holds {article(credential) if credential else _BY_NAME}"
                    )
                    pointer = Pointer(above) / field / str(key)
                    yield Hit(pointer, message, spec=Pointer.of(field, key))


def _given_away(subject: Subject, name: str, value: str) -> bool:
    """Whether a value is a credential by its name, and not the name of a Secret itself."""
    return bool(value) and given(name, value) and value not in _secrets(subject)


_MAKES_SECRETS = (SECRET, EXTERNALSECRET, SEALEDSECRET)


def _secrets(subject: Subject) -> frozenset[str]:
    """The names of the Secrets that are known here."""
    names = {*subject.environment.secrets}
    names |= {m.name for made in _MAKES_SECRETS for m in subject.around.by_kind.get(made, ())}
    for job in (subject.job, *subject.job.roles) if subject.job else ():
        names |= {secret.name for secret in job.secrets.values()}
        names |= {*job.image.pull_secrets}
    for template in subject.templates:
        names |= {text(dig(v, "secret", "secretName")) for _, v in template.volumes}
        names |= {text(s.get("name")) for s in mappings(template.spec.get("imagePullSecrets"))}
    for container in subject.containers:
        names |= {text(dig(e, "valueFrom", "secretKeyRef", "name")) for e in container.env}
        sources = mappings(container.body.get("envFrom"))
        names |= {text(dig(source, "secretRef", "name")) for source in sources}
    return frozenset(names)


def _in_variables(subject: Subject, container: Container) -> Iterator[Hit]:
    for index, entry in enumerate(container.env):
        name, value = text(entry.get("name")), text(entry.get("value"))
        credential = kind(value) if value else ""
        given_away = value and named(name, value) and value not in _secrets(subject)
        if credential or given_away:
            what = article(credential) if credential else _BY_NAME
            pointer = f"{container.pointer}/env/{index}/value"
            yield Hit(pointer, f"{name} holds {what}", spec=Pointer.of("env", name))


def _in_files(subject: Subject) -> Iterator[Hit]:
    """Scripts and settings that pods mount. Names in them are code, so only forms count."""
    for field in ("data", "binaryData"):
        for name, value in mapping(subject.body.get(field)).items():
            written = text(value)
            credential = kind(written if field == "data" else _decoded(written))
            if credential and credential != RANDOM:
                spec = _written_as(subject, str(name), written)
                shown = spec.parts[1] if spec.parts[:1] == ("files",) else name
                yield Hit(
                    Pointer.of(field, str(name)), f"{shown} holds {article(credential)}", spec=spec
                )


def _written_as(subject: Subject, key: str, written: str) -> Pointer:
    """Return where a job spec writes a key of its ConfigMap: the file with this content, or with
    this name (the ConfigMap has references replaced), else the inline script.
    """
    files = subject.job.files if subject.job else ()
    alike = [file.name for file in files if written in (file.content, file.binary)]
    alike += [file.name for file in files if file.name.endswith(f"/{key}")]
    return Pointer.of("files", alike[0]) if alike else Pointer("/entrypoint/inline")


def _decoded(encoded: str) -> str:
    """Return decoded base64 as far as it is ASCII text, or "" if it is not base64."""
    try:
        return base64.b64decode(encoded).decode("ascii", "replace")
    except ValueError:
        return ""


def _in_words(subject: Subject, words: tuple[str, ...], pointer: str) -> Iterator[Hit]:
    """Yield a hit for each word of a command line with a credential."""
    from trainwright.findings.redaction import of_words

    together = dict(of_words(words))
    for index, word in enumerate(words):
        flag = _FLAG.fullmatch(word) if word.startswith("-") else None
        name, value = (flag.group(1), flag.group(2)) if flag else ("", word)
        if value is None:  # --token VALUE: the next word is the value
            following = words[index + 1] if index + 1 < len(words) else ""
            value = "" if following.startswith("-") or kind(following) else following
        credential = kind(value) or together.get(index, "")
        by_name = _given_away(subject, name, value) if name else shows(value)
        if credential or by_name:
            where = f"the option --{name}" if name else "a word of the command line"
            what = article(credential) if credential else _BY_NAME
            yield Hit(
                pointer,
                f"{where} holds {what}",
                spec=Pointer.of("flags", name) if name else Pointer("/entrypoint"),
            )


RULES = defined_in(globals())
