"""What a run saves and reads: whether it outlives the pod, and whether it can exist at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from trainwright.datatypes.data import Data, dig, mapping, mappings, sequence, text
from trainwright.datatypes.groupkind import PERSISTENTVOLUMECLAIM
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.objects.pods.launching import launches
from trainwright.objects.pods.storage import (
    OF_HUB,
    OF_HYDRA,
    SAVING,
    Setting,
    arguments,
    at_paths,
    mount_at,
    saved,
    saved_below_image_folder,
    settings,
    spelled,
    variables,
    volume_of,
    words,
)
from trainwright.objects.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules.pods import on_spot

_READ_ONLY_KINDS = frozenset({"configMap", "secret", "projected", "downwardAPI", "image"})
_ONE_NODE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


@error("TW753", about=("persistentVolumeClaim",), spec=Pointer("/volumes"))
def claim_of_one_node(subject: Subject) -> Iterator[Hit]:
    claims = PERSISTENTVOLUMECLAIM in subject.around.by_kind
    for template in subject.templates if claims and subject.pods > 1 else ():
        for pointer, volume in template.volumes:
            modes, pods = _modes(subject, volume), subject.pods_with(volume)
            if pods > 1 and modes and _ONE_NODE.issuperset(modes):
                name = text(dig(volume, "persistentVolumeClaim", "claimName"))
                message = f"{pods} pods mount the claim {name}, which is {modes[0]}"
                spec = Pointer.of("volumes", text(volume.get("name")))
                once = "ReadWriteOncePod" in modes
                yield Hit(pointer, message, spec, form="pod" if once else "node")


@warning("TW754", spec=Pointer("/checkpoint"), per_pod=True)
def checkpoints_in_the_container(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        if template.partial or template.serves:
            continue
        if template.retried is not True and not on_spot(subject, template):
            continue
        for container in template.trains:
            for folder in saved(container) or _run_folders(container):
                if mount_at(container, folder.value) is None and not template.claimed:
                    why = on_spot(subject, template) or "its pods are replaced"
                    message = f"{folder.shown} saves to {folder.value}, on no volume, and {why}"
                    yield Hit(folder.pointer, message, folder.spec)
            outlives = _outlives(template, container)
            stays = template.claimed or outlives
            for folder in () if stays else saved_below_image_folder(container):
                message = f"{folder.shown} saves to {folder.value}, and no volume outlives the pod"
                yield Hit(folder.pointer, message, folder.spec)
            if not outlives and _retries(subject) and not _keeps(template, container):
                message = f"{_retries(subject)} retries, and nothing that a retry could go on from"
                yield Hit(container.pointer, message, form="retries")


def _run_folders(container: Container) -> tuple[Setting, ...]:
    """Return the folders of a program's own runs, as far as their paths are known."""
    if "hydra" not in spelled(container):  # as in each of OF_HYDRA
        return ()
    return tuple(at_paths(container, (s for s in settings(container) if s.name in OF_HYDRA)))


def _retries(subject: Subject) -> int:
    """Return how many retries a hand-written manifest asks for, or 0 for a rendered one."""
    limits = (
        subject.spec.get("backoffLimit"),
        dig(subject.spec, "runPolicy", "backoffLimit"),
        dig(subject.spec, "failurePolicy", "maxRestarts"),
    )
    return 0 if subject.job else max((count(limit) or 0 for limit in limits), default=0)


_REMOTE = re.compile(r"\b(?:s3|gs|gcs|abfss?|az|hdfs|oci|hf)://|push_to_hub|nfs")


def _keeps(template: PodTemplate, container: Container) -> bool:
    """Whether a container without such a volume can save what outlives it; True if it does not
    train on accelerators.
    """
    words = " ".join((*container.started, *container.variables.values()))
    trains = bool(container.accelerators) and launches(container.started)
    named = any(saved(container)) or any(saved_below_image_folder(container))
    return not trains or named or bool(template.claimed or _REMOTE.search(words))


def _outlives(template: PodTemplate, container: Container) -> bool:
    """Whether a container has a volume to write to that stays when its pod ends."""
    volumes = (volume_of(template, mount) for mount in container.mounts)
    return any("emptyDir" not in v and _READ_ONLY_KINDS.isdisjoint(v) for v in volumes)


# Settings that name a folder which programs write to, other than those for checkpoints.
_CACHES = frozenset(
    ("hf_home", "hf_datasets_cache", "hf_hub_cache", "huggingface_hub_cache", "transformers_cache")
    + ("torch_home", "xdg_cache_home", "tmpdir", "wandb_dir", "triton_cache_dir", "mlflow_home")
    + ("torchinductor_cache_dir", "torch_extensions_dir", "mplconfigdir", "ray_tmpdir", "log_dir")
    + ("logging_dir", "tensorboard_dir", "cache_dir")
)
_CACHE = ("_home", "cache", "tmpdir", "configdir", "_dir")  # parts of all of them
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")


@error("TW755", about=(*SAVING, *_CACHE), spec=Pointer("/volumes"), per_pod=True)
def writes_to_read_only_mount(subject: Subject) -> Iterator[Hit]:
    for template, container in subject.training:
        offline = _is_offline(container)
        written = [*saved(container), *_run_folders(container)]
        written += [] if offline else [s for s in settings(container) if s.name in _CACHES]
        for folder in written:
            mount = mount_at(container, folder.value) if folder.value[:1] == "/" else None
            if mount is not None and _closed(subject, mount, volume_of(template, mount)):
                message = f"{folder.shown} is {folder.value}, on a mount that is read-only"
                spec = Pointer.of("volumes", text(mount.get("name")))
                yield Hit(folder.pointer, message, spec)
            elif mount is None and folder.value[:1] == "/" and _is_sealed(template, container):
                message = f"{folder.shown} is {folder.value}, in an image that is read-only"
                yield Hit(folder.pointer, message, Pointer("/security/readOnlyRootFilesystem"))


def _is_sealed(template: PodTemplate, container: Container) -> bool:
    sealed = container.security.get("readOnlyRootFilesystem") is True
    return sealed and not template.partial and not template.claimed


def _is_offline(container: Container) -> bool:
    given = variables(container)
    return any(_true(given[name].value) for name in _OFFLINE if name in given)


def _true(value: str) -> bool:
    return value.lower() in ("1", "true", "yes", "on")


def _closed(subject: Subject, mount: Mapping[str, Data], volume: Mapping[str, Data]) -> bool:
    modes = _modes(subject, volume)
    return (
        mount.get("readOnly") is True
        or any(mapping(source).get("readOnly") is True for source in volume.values())
        or bool(_READ_ONLY_KINDS & volume.keys())
        or (bool(modes) and set(modes) == {"ReadOnlyMany"})
    )


def _modes(subject: Subject, volume: Mapping[str, Data]) -> list[str]:
    """Return the access modes of a volume's claim; empty if the claim is not known."""
    name = text(dig(volume, "persistentVolumeClaim", "claimName"))
    if not name:
        return []
    claim = subject.around.named(PERSISTENTVOLUMECLAIM, name, subject.manifest.namespace)
    return [text(mode) for mode in sequence(claim.spec.get("accessModes"))] if claim else []


# The variables that name the cache of a hub. The first of them that is set decides.
_HOMES = (
    *("transformers_cache", "hf_hub_cache", "huggingface_hub_cache", "hf_home"),
    "xdg_cache_home",
)
_TORCH_HOMES = ("torch_home", "xdg_cache_home")


@warning("TW764", about=("offline",), spec=Pointer("/env"), per_pod=True)
def offline_without_cache(subject: Subject) -> Iterator[Hit]:
    for template, container in subject.training:
        if not _is_offline(container):
            continue
        home = _cache(container, _HOMES)
        if home is None:
            if not _has_files(template, container):
                message = "there is no HF_HOME and no volume: only the image can hold the files"
                yield Hit(container.pointer, message)
            continue
        mount = mount_at(container, home.value)
        if mount is not None and _is_empty(template, mount):
            message = f"{home.shown} is {home.value}, an emptyDir that nothing fills"
            yield Hit(home.pointer, message)


def _cache(container: Container, names: tuple[str, ...]) -> Setting | None:
    """Return the setting of the first of several names that a container has."""
    given = {setting.name: setting for setting in settings(container)}
    return next((given[name] for name in names if name in given), None)


def _has_files(template: PodTemplate, container: Container) -> bool:
    """Whether a container has a volume that may hold earlier files; True for a partial template."""
    return template.partial or any(not _is_empty(template, mount) for mount in container.mounts)


def _is_empty(template: PodTemplate, mount: Mapping[str, Data]) -> bool:
    """Whether a mount is of an emptyDir that no init container writes to."""
    name = mount.get("name")
    filled = any(
        other.get("name") == name
        for container in template.containers
        if container.init
        for other in mappings(container.body.get("volumeMounts"))
    )
    return "emptyDir" in volume_of(template, mount) and not filled


# Options and variables that name what to download from a hub.
_FROM_HUB = re.compile(r"(?:^|_)(?:model|dataset)(?:_name|_id|_name_or_path)?$")
_FILE = re.compile(r"\.(?:py|ya?ml|json|jsonl|txt|csv|pth?|bin|ckpt|safetensors)")


# Weights of torchvision, by the names that its own scripts of training take.
# https://pytorch.org/vision/stable/models.html
_WEIGHTS = re.compile(r"(?:\w+_Weights\.)?(?:IMAGENET1K_\w+|COCO_\w+|KINETICS\d+_\w+|DEFAULT)")
_PRETRAINED = frozenset({"pretrained", "weights", "weights_backbone", "pretrained_weights"})


@warning(
    "TW773",
    about=("hf_home", "hub_cache", "transformers_cache", "xdg_cache_home", "torch_home"),
    spec=Pointer("/volumes"),
)
def downloads_into_the_container(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        again = subject.pods > 1 or template.retried is True
        if template.partial or template.serves or template.claimed or not again:
            continue
        for container in template.trains:
            for cache, downloaded in _downloads(container):
                if mount_at(container, cache.value) is None:
                    where = f"{cache.shown} is {cache.value}, on no volume"
                    yield Hit(cache.pointer, f"{where}, and {downloaded} is downloaded", cache.spec)


def _downloads(container: Container) -> Iterator[tuple[Setting, str]]:
    """Yield the caches of hubs that are folders, each with the first thing that goes into it."""
    offline = _is_offline(container)
    downloaded = "" if offline else next(_downloaded(container), "")
    for names, what in ((_HOMES, downloaded), (_TORCH_HOMES, next(_weights(container), ""))):
        cache = _cache(container, names)
        if what and cache and cache.value[:1] == "/":
            yield cache, what


def _weights(container: Container) -> Iterator[str]:
    """Yield the weights that torchvision or torch.hub downloads."""
    for setting in settings(container):
        if setting.name in _PRETRAINED and _WEIGHTS.fullmatch(setting.value):
            yield setting.value
        elif setting.name == "pretrained" and _is_on(setting):
            yield f"what {setting.shown} needs"


def _is_on(setting: Setting) -> bool:
    """Whether something is switched on: an option without a value is, and an empty variable not."""
    return _true(setting.value) or (not setting.value and setting.shown.startswith("-"))


def _downloaded(container: Container) -> Iterator[str]:
    """Yield models and data sets that are named as on a hub: `owner/name`, no file or folder."""
    for setting in settings(container):
        value = setting.value
        if _FROM_HUB.search(setting.name) and OF_HUB.fullmatch(value) and not _FILE.search(value):
            yield value


# Gated models: a hub only gives their files to users who have accepted a licence.
_GATED = re.compile(
    r"(?:meta-llama/|google/(?:gemma|paligemma|medgemma)|stabilityai/stable-diffusion-3|"
    r"black-forest-labs/FLUX\.1-dev|CohereForAI/|CohereLabs/|bigcode/starcoder|"
    r"mistralai/(?:Mistral-Large|Codestral)|tiiuae/falcon-180B|databricks/dbrx)[\w.-]*"
)
_GATED_PARTS = (
    *("meta-llama/", "gemma", "stable-diffusion-3", "FLUX.1-dev", "CohereForAI/", "CohereLabs/"),
    *("starcoder", "Mistral-Large", "Codestral", "falcon-180B", "dbrx"),
)
_TOKENS = frozenset(
    ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_TOKEN", "HUGGINGFACEHUB_API_TOKEN")
    + ("HF_TOKEN_PATH", "HF_ENDPOINT")
)
# What gives a token otherwise: a login, or the option of a program.
_LOGIN = re.compile(
    r"huggingface-cli\s{1,9}login|hf\s{1,9}auth\s{1,9}login|--(?:hf[-_])?token(?=[=\s])|\bhf_token="
)


@warning("TW765", about=_GATED_PARTS, spec=Pointer("/secrets"), per_pod=True)
def gated_model_without_token(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.containers:
            given = _TOKENS & variables(container).keys() or container.env_from
            known = given or _LOGIN.search(" ".join(container.started))
            open_model = known or _is_offline(container) or template.partial
            for at, what, model, spec in () if open_model else _gated(container):
                yield Hit(at, f"{what} is {model}, which is gated: no HF_TOKEN", spec)
    for at, model in _initialized(subject):
        yield Hit(at, f"the initializer downloads {model}, which is gated: no HF_TOKEN")


def _gated(container: Container) -> Iterator[tuple[str, str, str, Pointer]]:
    """Yield where the first gated model of a container is named, by what, which it is, and the
    field of a job spec that names it.
    """
    at = Pointer("/entrypoint")
    named = [(s.pointer, s.shown, s.value, s.spec) for s in settings(container)]
    named += [(container.pointer, "the model", word, at) for word in words(container)]
    yield from [item for item in named if _GATED.fullmatch(item[2])][:1]


def _initialized(subject: Subject) -> Iterator[tuple[str, str]]:
    """A gated model that a TrainJob downloads before its nodes start."""
    model = mapping(dig(subject.spec, "initializer", "model"))
    name = text(model.get("storageUri")).removeprefix("hf://")
    tokens = {text(variable.get("name")) for variable in mappings(model.get("env"))} & _TOKENS
    if _GATED.fullmatch(name) and not (tokens or model.get("secretRef")):
        yield "/spec/initializer/model", name


_TRACKING = frozenset(("report_to", "log_with", "logger", "loggers", "tracker", "trackers"))
_SWITCHES = ("wandb", "use_wandb", "enable_wandb", "with_wandb")
_KEYS = {"wandb": "WANDB_API_KEY", "comet_ml": "COMET_API_KEY", "neptune": "NEPTUNE_API_TOKEN"}
"""Services of experiment tracking, and the key that each asks a terminal for where it has none."""
_OFF = ("offline", "dryrun", "disabled")


@warning("TW770", about=tuple(_KEYS), spec=Pointer("/secrets"), per_pod=True)
def tracking_without_key(subject: Subject) -> Iterator[Hit]:
    for template, container in subject.training:
        line = " ".join(container.started)
        for option in _trackers(container):
            key = next((_KEYS[name] for name in _tracked(option) if name in _KEYS), "")
            given = key in container.variables or container.env_from or key in line
            off = container.variables.get("WANDB_MODE") in _OFF or "wandb login" in line
            if key and not (given or off or _has_files(template, container)):
                message = f"{option.shown} names a service, without {key}"
                yield Hit(container.pointer, message, option.spec)


def _trackers(container: Container) -> Iterable[Setting]:
    """Return the options that name a tracking service, else a W&B project, which implies one."""
    options = [s for s in arguments(container) if s.name in (*_TRACKING, *_SWITCHES)]
    projects = (s for s in settings(container) if s.name == "wandb_project" and s.value)
    return options or list(projects)[:1]


def _tracked(option: Setting) -> Iterable[str]:
    if option.name in (*_SWITCHES, "wandb_project"):
        return () if option.value.lower() in ("false", "0", "no") else ("wandb",)
    return option.value.lower().split(",") if option.name in _TRACKING else ()


RULES = defined_in(globals())
