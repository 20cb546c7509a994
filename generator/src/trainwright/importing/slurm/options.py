"""Options of sbatch and srun: which there are, and which were given.

https://slurm.schedmd.com/sbatch.html, https://slurm.schedmd.com/srun.html
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

import click

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.importing.commandline import Line, parameter, parse
from trainwright.kinds.reading import shown

_HEADER = re.compile(r"^#SBATCH[ \t]+(.*)$", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s)#.*")

# Options of sbatch and srun that decide what runs, with what each is kept under.
_READ = """
--job-name,-J --nodes,-N --ntasks,-n --ntasks-per-node --tasks-per-node --gpus-per-node --gres
--gpus,-G --gpus-per-task --cpus-per-task,-c --cpus-per-gpu --mem --mem-per-cpu --mem-per-gpu
--time,-t --partition,-p --chdir,-D --container-image --container-mounts --container-workdir
--array,-a --signal --export
""".split()
READ_SWITCHES = ["--requeue", "--no-requeue", "--exclusive"]
# Options that do not decide what is imported; the report says what is lost without them.
_WATCHED = """
--output,-o --error,-e --mail-user --mail-type --open-mode --comment --input,-i --profile
--account,-A --qos,-q --wckey --reservation --begin --deadline --nice --priority --licenses,-L
--container-name --container-save --container-env --mpi --cpu-bind --gpu-bind --mem-bind --hint
--cpu_bind --gpu_bind --mem_bind --segment --environment --image --module --volume --relative,-r
--tres-per-task --tres-bind --prolog --epilog --mcs-label --delay-boot --clusters,-M --acctg-freq
--bb --thread-spec --threads,-T --treewidth --chdir-local --uid --gid --cluster-constraint --tmp
--distribution,-m --accel-bind --task-epilog --task-prolog --kill-on-bad-exit,-K
--network --threads-per-core --ntasks-per-core --ntasks-per-socket --cores-per-socket
--sockets-per-node --core-spec,-S --cpu-freq --time-min --switches --extra-node-info,-B
--nodelist,-w --exclude,-x --constraint,-C --dependency,-d --jobid --bell --immediate,-I --wait,-W
--ntasks-per-gpu --gres-flags --propagate --power --hetjob --het-group
""".split()
_SWITCHES = """
--label,-l --overlap --container-mount-home --no-container-mount-home --container-writable
--container-readonly --container-remap-root --no-container-remap-root --no-container-entrypoint
--container-entrypoint --verbose,-v --quiet,-Q --parsable --test-only --exact --oversubscribe,-s
--overcommit,-O --pty --wrap --nvmps --no-kill,-k --spread-job --use-min-nodes --contiguous
--get-user-env --hold,-H --ignore-pbs --unbuffered,-u --bcast --multi-prog --resv-ports
--preserve-env,-E --quit-on-interrupt --disable-status,-X --reboot --kill-on-invalid-dep
""".split()
_VALUED = {name for declared in (*_READ, *_WATCHED) for name in declared.split(",")}
_OPTIONAL = {
    *("--exclusive", "--kill-on-bad-exit", "--get-user-env", "--nvmps", "--no-kill", "--bcast"),
    "--immediate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Options by name, with the place of each; one that is not given has the place of the script's
    own command.
    """

    values: Mapping[str, Data]
    places: Mapping[str, Location]
    otherwise: Location

    def place(self, name: str) -> Location:
        return self.places.get(name, self.otherwise)

    def text(self, name: str) -> str:
        """Return the value of an option as it is written; that of a switch is empty."""
        value = self.values.get(name, "")
        return "" if value is True else shown(name, value)

    def then(self, given: Mapping[str, Data], place: Location) -> Given:
        """Return these options and others, which are given at one place and go before."""
        places = {**self.places, **dict.fromkeys(given, place)}
        return Given(values={**self.values, **given}, places=places, otherwise=place)


def headers(file: str, text: str) -> Given:
    """Return the options that a script has in its `#SBATCH` lines. Raise ImportingError."""
    given = Given(values={}, places={}, otherwise=Location(file, 1))
    head = _head(text)
    for header in _HEADER.finditer(head):
        place = Location(file, head.count("\n", 0, header.start()) + 1)
        given = given.then(options(place, "sbatch", _split(header[1]))[0], place)
    return replace(given, otherwise=Location(file, 1))


def _head(text: str) -> str:
    """Return the lines up to the first command, behind which sbatch reads no options."""
    command = re.search(r"^(?![ \t]*(?:#|$))", text, re.MULTILINE)
    return text[: command.start()] if command else text


def exported(given: Mapping[str, Data]) -> dict[str, str]:
    """Return the variables of `--export=ALL,NAME=VALUE`."""
    pairs = (item.partition("=") for item in str(given.get("--export", "")).split(","))
    return {name: value for name, equals, value in pairs if equals}


def is_read(name: str) -> bool:
    """Whether an option decides what is imported."""
    return name in {declared.split(",")[0] for declared in (*_READ, *READ_SWITCHES)}


def _split(header: str) -> list[str]:
    text = _COMMENT.sub("", header)
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def options(
    place: Location, command: str, words: Sequence[str]
) -> tuple[dict[str, Data], tuple[str, ...]]:
    """Return the options before a program, by name, and the words that follow them. Those of a
    site's plug-ins are kept by their names.
    """
    option_words: list[str] = []
    of_site: dict[str, Data] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        if name in _OPTIONAL:  # its value may be left out
            option_words.append(name)
        elif equals and name.startswith("--") and name not in _VALUED:
            of_site[name] = value
        else:
            takes = name in _VALUED and not equals
            option_words += words[at : at + 1 + takes]
            at += takes
        at += 1
    line = Line(words=(command, *option_words, *words[at:]), place=place)
    given, rest = parse(line, 1, _parameters(), strict=True)
    return {**given, **of_site}, rest


def _parameters() -> list[click.Parameter]:
    parameters: list[click.Parameter] = []
    for declared in (*_READ, *_WATCHED):
        parameters.append(parameter(declared, is_flag=declared.split(",")[0] in _OPTIONAL))
    for declared in (*READ_SWITCHES, *_SWITCHES):
        parameters.append(parameter(declared, is_flag=True))
    return parameters
