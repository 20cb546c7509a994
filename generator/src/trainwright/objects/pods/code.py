"""How the code of a job reaches its pods: a commit is fetched, or an image is mounted.

git-sync checks one commit out and ends. It needs no shell, runs as a user of its own, and verifies
the hosts it connects to over SSH. https://github.com/kubernetes/git-sync
"""

from __future__ import annotations

from dataclasses import replace

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Code, Container, GitCode, Job, SecretKey
from trainwright.datatypes.volumes import Mount, Volume

# v4.5.0, by the digest under which Kubernetes' registry has it:
# https://github.com/kubernetes/k8s.io/blob/main/registry.k8s.io/images/k8s-staging-git-sync/images.yaml
GIT_SYNC = (
    "registry.k8s.io/git-sync/git-sync"
    "@sha256:0e64aedb0d0ae0a3bab880349a5109b2a31891d646dd61e433ca36ed220dff1f"
)
NAME = "trainwright-code"  # of the volume, and of the init container
_KEYS = "trainwright-git"  # the volume of the Secret for SSH
_ROOT, _LINK = "/git", "code"  # where git-sync works, and what it calls the commit there
_SECRET = "/etc/git-secret"  # noqa: S105 - where it looks for keys
_RETRIES = 5


def git_sync(job: Job, environment: Environment) -> str:
    """Return the image that fetches a job's code; empty if nothing is fetched."""
    return (environment.git_sync or GIT_SYNC) if job.code and job.code.git else ""


def mounted(job: Job, environment: Environment) -> Job:
    """Return the job with its code as a volume, which for git a first init container fetches.

    The pods' working directory is that of the code, unless the job sets another.
    """
    code = job.code
    if code is None:
        return job
    job = replace(job, working_dir=job.working_dir or code.mount_path)
    if code.git is None:
        image = {"image": {"reference": code.image, "pullPolicy": "IfNotPresent"}}
        volume = Volume(name=NAME, source=image, mount_path=code.mount_path, read_only=True)
        return replace(job, volumes=(*job.volumes, volume))
    keys = (Volume(name=_KEYS, source={"secret": {"secretName": code.git.secret}}),)
    return replace(
        job,
        volumes=(*job.volumes, _checkout(code, code.git), *(keys if _needs_keys(code.git) else ())),
        init_containers=(_fetching(code.git, git_sync(job, environment)), *job.init_containers),
    )


def _checkout(code: Code, git: GitCode) -> Volume:
    inside = f"{_LINK}/{git.path}" if git.path else _LINK
    return Volume(name=NAME, source={"emptyDir": {}}, mount_path=code.mount_path, sub_path=inside)


def _needs_keys(git: GitCode) -> bool:
    return bool(git.secret) and git.over_ssh


def _fetching(git: GitCode, image: str) -> Container:
    """Return the init container that fetches a commit, by git-sync."""
    words = [
        f"--repo={git.url}",
        f"--ref={git.commit}",
        "--depth=1",
        f"--root={_ROOT}",
        f"--link={_LINK}",
        "--one-time",
        f"--max-failures={_RETRIES}",
    ]
    mounts = {NAME: (Mount(mount_path=_ROOT),)}
    secrets: dict[str, SecretKey] = {}
    if git.over_ssh:  # which refuses users that no file of the image knows
        words += ["--add-user", f"--ssh-key-file={_SECRET}/ssh-privatekey"]
        words += [f"--ssh-known-hosts-file={_SECRET}/known_hosts"]
    elif git.secret:
        secrets = {
            "GITSYNC_USERNAME": SecretKey(name=git.secret, key="username"),
            "GITSYNC_PASSWORD": SecretKey(name=git.secret, key="password"),
        }
    if _needs_keys(git):
        mounts[_KEYS] = (Mount(mount_path=_SECRET, read_only=True),)
    return Container(
        name=NAME,
        image=image,
        args=tuple(words),
        secrets=secrets,
        mounts=mounts,
        # A quota may ask for them; what the training asks for is more.
        parts={
            "resources": {
                "requests": {"cpu": "100m", "memory": "256Mi"},
                "limits": {"memory": "1Gi"},
            }
        },
    )
