"""What people write: the files of a small repository, and edits of them that go through review."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from sync_repository import folder
from sync_requests import DEFAULTS, ENVIRONMENT, LEDGER, Tree, jobs, own_path

import repository

NAMES = ("a", "b", "c")
BASES = ("llm", "vision")
TARGETS = ("pytorchjob", "trainjob", "jobset", "job", "trainingjob")


def base_path(name: str) -> str:
    return f"environments/base/jobs/{name}.yaml"


HEAD = "apiVersion: trainwright.io/v1alpha1\nkind: "

# What each line of a shared file may say; the first is how it begins, and None leaves it out.
_VERSIONS = 'jobset: {version: "0.10"}, job: {}, trainingjob: {version: "0.3"}'
SHARED: dict[str, dict[str, tuple[str | None, ...]]] = {
    ENVIRONMENT: {
        "targets": (
            '{pytorchjob: {version: "1.9"}, trainjob: {version: "2.2"}, ' + _VERSIONS + "}",
            '{pytorchjob: {version: "1.9", restrictedInitContainer: true}, '
            'trainjob: {version: "2.2"}, ' + _VERSIONS + "}",
            '{pytorchjob: {version: "1.8", restrictedInitContainer: true}, '
            'trainjob: {version: "2.1"}, ' + _VERSIONS + "}",
        ),
        "podSecurity": ("baseline", "restricted", None),
        "serviceMesh": (None, "istio"),
        "gitops": ("{engine: ENGINE}", "{engine: ENGINE, prune: immediate}"),
        "pools": (
            "{h100: {nodeSelector: {pool: h100}}}",
            "{h100: {nodeSelector: {pool: b200}}}",
            "{h100: {nodeSelector: {pool: h100}, tolerations: [{key: sku, operator: Exists}]}}",
        ),
        "defaults": (
            None,
            "{gracePeriod: 5m}",
            "{maxDuration: 1h}",
            "{state: suspended}",
            "{state: cancelled}",
            "{env: {REGION: north}}",
        ),
    },
    DEFAULTS: {
        "defaults": ("{}", "{gracePeriod: 3m}", "{state: suspended}", "{retries: 2}"),
    },
    base_path("llm"): {
        "flags": ("{lr: 0.1}", "{lr: 0.2}", '{lr: "0.1"}', "{}"),
        "run": (None, "7"),
        "state": (None, None, "suspended", "cancelled"),
        "maxDuration": ("4h", None, "1h"),
    },
    base_path("vision"): {
        "flags": ("{lr: 0.1}", "{lr: 0.3}"),
    },
}
SHARED[base_path("language")] = SHARED[base_path("llm")]


def _text(kind: str, lines: dict[str, tuple[str | None, ...]], name: str = "") -> str:
    text = f"{HEAD}{kind}\n" + (f"name: {name}\n" if name else "")
    if kind == "Environment":
        text += 'namespace: training\nkubernetes: {version: "1.31"}\nqueueing: kueue\n'
        text += "queues: {team: {}}\n"
    return text + "".join(f"{key}: {found[0]}\n" for key, found in lines.items() if found[0])


def job_text(chance: Random, name: str) -> str:
    """A job as it is first written."""
    target = chance.choice(TARGETS)
    text = put(repository.JOB.replace("NAME", name), "target", target)
    text += "flags: {epochs: 0}\n"
    if target != "trainingjob" and chance.random() < 0.4:
        text += "queue: team\n"
    if chance.random() < 0.3:
        text += "pool: h100\n"
    if chance.random() < 0.6:
        text += f"extends: base/{chance.choice(BASES)}\n"
        text = put(text, "maxDuration", None) if chance.random() < 0.4 else text
    return text


def first(chance: Random, engine: str) -> dict[str, bytes]:
    """A repository before anything is rendered."""
    files = {
        ENVIRONMENT: _text("Environment", SHARED[ENVIRONMENT]).replace("ENGINE", engine),
        DEFAULTS: _text("Defaults", SHARED[DEFAULTS]),
    }
    for base in BASES:
        path = base_path(base)
        files[path] = _text("JobSpec", SHARED[path], base)
    for name in NAMES[: chance.choice((1, 2, 2, 3))]:
        files[own_path(name)] = job_text(chance, name)
    return {path: text.encode() for path, text in files.items()}


def put(text: str, key: str, value: str | None) -> str:
    """A text with a line `key: value`, or without one."""
    line = "" if value is None else f"{key}: {value}\n"
    pattern = rf"(?m)^{key}:.*\n"
    if re.search(pattern, text):
        return re.sub(pattern, lambda _: line, text, count=1)
    return text + line


def get(text: str, key: str) -> str | None:
    found = re.search(rf"(?m)^{key}: *(.*?)(?: #.*)?$", text)
    return found.group(1) if found else None


# --- edits: of a tree, by chance; None where there is nothing to edit ----------------------------

Edit = Callable[[Random, Tree], "dict[str, bytes] | None"]


def shared(chance: Random, tree: Tree) -> dict[str, bytes] | None:
    """A line of a file that several jobs inherit from."""
    path = chance.choice([path for path in SHARED if path in tree])
    key = chance.choice(list(SHARED[path]))
    text = tree[path].decode()
    value = chance.choice(SHARED[path][key])
    if value is not None:
        engine = "flux" if "engine: flux" in text else "argocd"
        value = value.replace("ENGINE", engine)
    return {**tree, path: put(text, key, value).encode()}


def _own(change: Callable[[Random, str], str]) -> Edit:
    def edit(chance: Random, tree: Tree) -> dict[str, bytes] | None:
        names = sorted(jobs(tree))
        if not names:
            return None
        path = own_path(chance.choice(names))
        return {**tree, path: change(chance, tree[path].decode()).encode()}

    return edit


# What changes nothing: defaults, in their spellings, and words for people.
_DEFAULTS: dict[str, tuple[str | None, ...]] = {
    "backend": ("auto", None),
    "gracePeriod": ("60s", "1m", None),
    "shm": ("auto", "512Mi", None),
    "terminationMessagePolicy": ("FallbackToLogsOnError", None),
    "preflight": ("{shm: true, names: false}", None),
    "security": ("{privileged: false}", None),
    "description": ("what it is for",),
}


def _respelt(chance: Random, text: str) -> str:
    """The same in other words."""
    key = chance.choice(("flags", "maxDuration", "resources", *_DEFAULTS))
    if key == "flags":
        found = re.sub(r"epochs: (\d+)", r'epochs: "\1"', text)
        return found if found != text else re.sub(r'epochs: "(\d+)"', r"epochs: \1", text)
    if key == "maxDuration":
        message = get(text, key)
        return (
            put(text, key, f"{int(message[:-1]) * 60}m") if message and message[-1] == "h" else text
        )
    if key == "resources":
        return put(text, key, '{cpu: "1000m", memory: 1Gi}')
    return put(text, key, chance.choice(_DEFAULTS[key]))


_HAND: dict[str, tuple[str | None, ...]] = {
    "nodes": ("2", "3"),
    "maxDuration": ("2h", "3h", "1h", None),
    "state": (None, "active", "suspended", "cancelled"),
    "extends": ("base/llm", "base/vision", None),
    "run": (None, "2", "3"),
    "pool": (None, "h100"),
}


def _by_hand(chance: Random, text: str) -> str:
    key = chance.choice(list(_HAND))
    return put(text, key, chance.choice(_HAND[key]))


def _epochs(chance: Random, text: str) -> str:
    return put(text, "flags", f"{{epochs: {chance.randint(0, 3)}}}")


def add(chance: Random, tree: Tree) -> dict[str, bytes] | None:
    """A new job, or a copy of one."""
    free = [name for name in NAMES if own_path(name) not in tree]
    if not free:
        return None
    name = chance.choice(free)
    there = sorted(jobs(tree))
    if there and chance.random() < 0.5:
        text = put(tree[own_path(chance.choice(there))].decode(), "name", name)
    else:
        text = job_text(chance, name)
    return {**tree, own_path(name): text.encode()}


def remove(chance: Random, tree: Tree) -> dict[str, bytes] | None:
    names = sorted(jobs(tree))
    if len(names) < 2:
        return None
    path = own_path(chance.choice(names))
    return {key: raw for key, raw in tree.items() if key != path}


def rename(chance: Random, tree: Tree) -> dict[str, bytes] | None:
    """A job under another name: its file alone, or also the folder of what was rendered."""
    free = [name for name in NAMES if own_path(name) not in tree]
    names = sorted(jobs(tree))
    if not free or not names:
        return None
    old, new = chance.choice(names), chance.choice(free)
    files = dict(tree)
    files[own_path(new)] = put(files.pop(own_path(old)).decode(), "name", new).encode()
    if chance.random() < 0.5:
        for path in [path for path in files if path.startswith(folder(old))]:
            files[path.replace(folder(old), folder(new))] = files.pop(path)
    return files


def move_base(_chance: Random, tree: Tree) -> dict[str, bytes] | None:
    """A base under another name, and all that extend it with it."""
    for old, new in (("llm", "language"), ("language", "llm")):
        path = base_path(old)
        if path in tree:
            files = dict(tree)
            files[base_path(new)] = put(files.pop(path).decode(), "name", new).encode()
            for job in jobs(tree):
                raw = files[own_path(job)]
                extends = f"extends: base/{old}\n".encode()
                files[own_path(job)] = raw.replace(extends, f"extends: base/{new}\n".encode())
            return files
    return None


def move_value(chance: Random, tree: Tree) -> dict[str, bytes] | None:
    """A line of a job into the base that it extends, as it is."""
    names = [job for job in sorted(jobs(tree)) if b"extends: base/vision" in tree[own_path(job)]]
    base = base_path("vision")
    if not names or base not in tree:
        return None
    path = own_path(chance.choice(names))
    key = chance.choice(("nodes", "resources", "maxDuration"))
    value = get(tree[path].decode(), key)
    if value is None:
        return None
    return {
        **tree,
        path: put(tree[path].decode(), key, None).encode(),
        base: put(tree[base].decode(), key, value).encode(),
    }


def forget(chance: Random, tree: Tree) -> dict[str, bytes] | None:
    """A line of the ledger taken out."""
    lines = tree.get(LEDGER, b"").splitlines(keepends=True)
    runs = [line for line in lines if line.startswith(b"  ")]
    if not runs:
        return None
    gone = chance.choice(runs)
    if len(runs) == 1:
        return {path: raw for path, raw in tree.items() if path != LEDGER}
    return {**tree, LEDGER: b"".join(line for line in lines if line != gone)}


def comment(chance: Random, text: str) -> str:
    return text + "# looked at\n" if "# looked" not in text else text.replace("# looked at\n", "")


EDITS: dict[str, Edit] = {
    "share": shared,
    "edit": _own(_epochs),
    "comment": _own(comment),
    "respell": _own(_respelt),
    "write": _own(_by_hand),
    "add": add,
    "remove": remove,
    "rename": rename,
    "move a base": move_base,
    "move a value": move_value,
    "forget": forget,
}
