"""Names of a workload's own pods and services in its texts: a rendered run has others.

A name of the pod with rank 0 becomes a reference to it; `staying` finds those that cannot be
replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from os.path import commonprefix
from typing import TYPE_CHECKING

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import mapped
from trainwright.objects.pods.pod import DOMAIN, Workload

if TYPE_CHECKING:
    from trainwright.importing.equivalence import form

RANK0 = "${{ rank0.address }}"
RUN = "${{ run.name }}"
# Stands for it in what is made of a script, where each run has a value of its own: a job's ID.
OWN_NAME = "trainwright-run-name"
# The domain of the headless Service by which a run's pods are found, and which has its name.
SERVICE = "${{ run.name }}.${{ namespace }}.svc.cluster.local"
# Used in place of a pod's number: for the domain, and for what all names begin with up to the pod's
# number (llm-trainer-0-), and up to the number of its Job (llm-trainer-).
OF_SERVICE, OF_PODS, OF_JOBS = -1, -2, -3
_NEAR = r"(?:\.[a-z0-9-]+)?(?:\.svc(?:\.cluster\.local)?)?"


@dataclass(frozen=True)
class Names:
    """The host names of pods, in the order of their ranks.

    A variable that is nothing but the name of the `domain` has the name of the run.
    """

    hosts: tuple[str, ...]
    domain: str = ""

    @classmethod
    def of(cls, workload: Workload) -> Names:
        return _names(workload.training.hostnames)

    def is_run(self, variable: str) -> bool:
        """Whether the value of a variable is the name of the run, and nothing else."""
        return bool(self.domain) and variable == self.domain

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        numbers = {host: number for number, host in enumerate(self.hosts)}
        return {**{host.partition(".")[0]: number for host, number in numbers.items()}, **numbers}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        hosts = "|".join(re.escape(host) for host in sorted(self._numbers, key=len, reverse=True))
        named = rf"(?P<host>{hosts}){_NEAR}"
        if self._service:
            service = re.escape(self._service)
            named += rf"|(?P<service>{service}{DOMAIN})"
        if self._begun:
            named += rf"|(?P<pods>{re.escape(self._begun)})"
        if self._of_job:
            named += rf"|(?P<jobs>{re.escape(self._of_job)})"
        return re.compile(rf"(?<![\w.-])(?:{named})(?![\w-]|\.\w)")

    @cached_property
    def _begun(self) -> str:
        """What all names begin with before the number ("llm-trainer-0-"); empty if they differ."""
        labels = [host.partition(".")[0] for host in self.hosts]
        begun = labels[0].removesuffix("0") if labels and labels[0].endswith("-0") else ""
        numbered = all(label == f"{begun}{number}" for number, label in enumerate(labels))
        return begun if numbered and "-" in begun.removesuffix("-") else ""

    @cached_property
    def _of_job(self) -> str:
        """The same up to the number of their Job, "llm-trainer-", or "" if they have none."""
        above = self._begun.removesuffix("0-")
        return above if above != self._begun and "-" in above.removesuffix("-") else ""

    @cached_property
    def _service(self) -> str:
        """The Service that is the domain of the pods' host names; empty if they have none."""
        return self.hosts[0].partition(".")[2] if self.hosts else ""

    def replaced(self, text: str, by: Callable[[int], str]) -> str:
        """Return a text with `by(number)` for each name; a name stays if that is empty.

        The number is OF_SERVICE for the domain of the pods' Service, and OF_PODS or OF_JOBS for
        what their names begin with.
        """
        if not self.may_be_in(text):
            return text

        def named(match: re.Match[str]) -> str:
            host = match["host"]
            number = self._numbers[host] if host else _OTHERS[match.lastgroup or ""]
            return by(number) or match[0]

        return self._pattern.sub(named, text)

    def may_be_in(self, text: str) -> bool:
        """Whether a text, or any of several texts in one, can name a pod at all."""
        return bool(self._stem) and (self._stem in text or self._is_domain_in(text))

    def _is_domain_in(self, text: str) -> bool:
        return bool(self._service) and f"{self._service}." in text and ".svc" in text

    @cached_property
    def _stem(self) -> str:
        """What every name begins with. A text without it names no pod.

        Nothing for pods of a service without a cluster, which are called as anything is: `train`.
        """
        plain = any("-" not in host for host in self.hosts[:1])
        begun = self._of_job or self._begun
        return "" if plain else begun or commonprefix(list(self._numbers))  # noqa: RUF071


@lru_cache(maxsize=16)  # an import asks for those of the same hosts a hundred times
def _names(hosts: tuple[str, ...]) -> Names:
    domain = hosts[0].partition(".")[2]
    return Names(hosts, domain if "-" in domain else "")  # any other may be any word


_OTHERS = {"service": OF_SERVICE, "pods": OF_PODS, "jobs": OF_JOBS}


def references(numbered: str) -> Mapping[int, str]:
    """Return the reference that replaces a name, by the name's number. `numbered` is what the
    target puts between the name of a run and the number of a pod.
    """
    pods = f"${{{{ run.name }}}}{numbered}" if numbered else ""
    jobs = pods.removesuffix("0-") if numbered.endswith("-0-") else ""
    return {0: RANK0, OF_SERVICE: SERVICE, OF_PODS: pods, OF_JOBS: jobs}


def referring(text: str, names: Names, numbered: str = "") -> str:
    """Return a text of a spec that refers to the pod with rank 0 instead of naming it."""
    by_number = references(numbered)
    return names.replaced(text, lambda number: by_number.get(number, ""))


# --- the normal form -----------------------------------------------------------------------------


def anonymous(pod: form.Pod, names: Names) -> form.Pod:
    """Return a pod whose texts name pods by their numbers, which are the same in every run."""

    others = {number: f"({name})" for name, number in _OTHERS.items()}

    def plain(data: Data) -> Data:
        if not isinstance(data, str):
            return data
        named = data.replace(OWN_NAME, "run")
        return names.replaced(named, lambda number: others.get(number, f"(pod {number})"))

    def anew(data: Data) -> Data:
        """Replace the names in data; most of a pod's data has none."""
        texts = repr(data)
        return mapped(data, plain) if OWN_NAME in texts or names.may_be_in(texts) else data

    flags, words = mapped(pod.program.flags, plain), mapped(pod.program.words, plain)
    return replace(
        pod,
        program=replace(pod.program, flags=flags, words=words),
        env=anew({k: "run" if names.is_run(value) else value for k, value in pod.env.items()}),
        files=anew(pod.files),
        init=anew(pod.init),
        sidecars=anew(pod.sidecars),
    )
