"""Two jobs that do not fit together, gang against elastic: exact simulation and published runs.

    .venv/bin/python benchmarks/makespan.py

One number of each published run is solved for: the work of a job, from the time that both took
one after the other. The elastic time is then predicted, and never fitted. Times are seconds and
work is unit-seconds, both exact (integers and fractions); a unit is a GPU, a CPU or a node.
docs/elastic-scheduling.md says what the model leaves out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby

from trainwright.reports.terminal import table

Exact = int | Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Training that can run on any number of units from minimum to maximum."""

    name: str
    arrival: Exact
    minimum: int
    maximum: int
    work: Exact
    """Unit-seconds that one unit alone would need."""
    startup: Exact = 0
    """Seconds that units are held before training, each time the job starts from nothing."""
    resize: Exact = 0
    """Seconds without training after each change of size."""
    priority: int = 0
    """Higher goes first; only Lattice looks at it."""
    serial: Exact = 0
    """The share of a step that more units do not shorten (Amdahl); 0 scales perfectly."""

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.maximum:
            raise ValueError(
                f"{self.name}: minimum {self.minimum}, maximum {self.maximum}: "
                "expected 1 <= minimum <= maximum"
            )
        if self.work <= 0 or min(self.arrival, self.startup, self.resize, self.serial) < 0:
            raise ValueError(f"{self.name}: work has to be above 0, and no time or share below 0")

    def speed(self, units: int) -> Fraction:
        """Work done a second on so many units."""
        return Fraction(units) / (1 + self.serial * (units - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A job that has arrived and is not done."""

    job: Job
    remaining: Exact
    units: int = 0
    ready: Exact = 0
    """When it trains, if it holds units."""


Policy = Callable[[int, Sequence[Claim]], list[int]]
"""From the capacity and the claims in order of arrival, the units of each from now on."""


def gang(capacity: int, claims: Sequence[Claim]) -> list[int]:
    """All of a job or nothing, first come first served; a job that waits blocks those behind it."""
    units = [claim.units for claim in claims]
    for index, claim in enumerate(claims):
        if not claim.units:
            if claim.job.maximum > capacity - sum(units):
                break
            units[index] = claim.job.maximum
    return units


def elasticdl(capacity: int, claims: Sequence[Claim]) -> list[int]:
    """Start with what is free, grow when units free up, give nothing back; oldest first.

    ElasticDL creates all worker pods at once and leaves them to Kubernetes, which starts those
    that fit: https://github.com/sql-machine-learning/elasticdl/blob/develop/docs/benchmark/allreduce/report.md
    """
    units = [claim.units for claim in claims]
    for index, claim in enumerate(claims):
        most = min(claim.job.maximum, claim.units + capacity - sum(units))
        if most >= claim.job.minimum:
            units[index] = most
    return units


def lattice(capacity: int, claims: Sequence[Claim]) -> list[int]:
    """Strict order by priority, then arrival; all sizes are decided anew at each event.

    As `DispatchWorkers` and `squeezeFirstJob` do for pods of one unit (which leave nothing idle
    after one squeeze): https://github.com/lattice-io/lattice,
    lattice-operator/pkg/controller/breezeml.ai/v1/common/util/autoscaler.go
    """
    order = sorted(range(len(claims)), key=lambda index: -claims[index].job.priority)
    jobs = [claims[index].job for index in order]
    sizes = _squeezed(capacity, jobs, _dispatched(capacity, jobs))
    by_index = dict(zip(order, sizes, strict=True))
    return [by_index[index] for index in range(len(claims))]


def _dispatched(capacity: int, jobs: Sequence[Job]) -> list[int]:
    """The largest sizes that fit, job by job; ends before the first one that gets too little."""
    sizes: list[int] = []
    for job in jobs:
        free = capacity - sum(sizes)
        if free < job.minimum:
            break
        sizes.append(min(job.maximum, free))
    return sizes


def _squeezed(capacity: int, jobs: Sequence[Job], running: list[int]) -> list[int]:
    """Bring the first waiting job to its minimum, at the cost of the last running ones.

    Only if some unit is idle: a cluster that is full stays as it is.
    """
    sizes = [*running]
    free = capacity - sum(sizes)
    if free and len(running) < len(jobs):
        waiting = jobs[len(running)]
        spare = [
            size - job.minimum if job.priority <= waiting.priority else 0
            for job, size in zip(jobs, running, strict=False)
        ]
        needed = waiting.minimum - free
        if needed <= sum(spare):
            for place in reversed(range(len(running))):
                given = min(needed, spare[place])
                sizes[place] -= given
                needed -= given
            sizes.append(waiting.minimum)
    return sizes + [0] * (len(jobs) - len(sizes))


POLICIES: dict[str, Policy] = {"gang": gang, "elastic": elasticdl, "Lattice": lattice}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """What one job held between two events."""

    job: Job
    start: Exact
    end: Exact
    units: int
    training: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Everything that happened, in order."""

    capacity: int
    spans: tuple[Span, ...]

    @property
    def makespan(self) -> Exact:
        """When the last job ended, from time 0."""
        return self.spans[-1].end

    def held(self, name: str) -> list[Span]:
        """When the job held units: the first span starts when it was let in."""
        return [span for span in self.spans if span.job.name == name]

    @property
    def use(self) -> Fraction:
        """Mean share of all units that trained, from time 0 to the end."""
        trained = sum(units * (end - start) for start, end, units in self._levels())
        return Fraction(trained) / (self.capacity * self.makespan)

    @property
    def peak(self) -> int:
        return max(units for _, _, units in self._levels())

    @property
    def full_until(self) -> Exact | None:
        """When all units trained for the last time; None if they never did."""
        ends = [end for _, end, units in self._levels() if units == self.capacity]
        return ends[-1] if ends else None

    def _levels(self) -> Iterator[tuple[Exact, Exact, int]]:
        for (start, end), spans in groupby(self.spans, key=lambda span: (span.start, span.end)):
            yield start, end, sum(span.units for span in spans if span.training)


def simulate(capacity: int, jobs: Sequence[Job], policy: Policy) -> Timeline:
    """Run the jobs to their end.

    Jobs that no event will ever let in are a ValueError that names them.
    """
    arrivals = sorted(jobs, key=lambda job: job.arrival)
    claims: list[Claim] = []
    spans: list[Span] = []
    now: Exact = 0
    while arrivals or claims:
        while arrivals and arrivals[0].arrival <= now:
            job = arrivals.pop(0)
            claims.append(Claim(job=job, remaining=job.work))
        sizes = policy(capacity, claims)
        claims = [_sized(claim, units, now) for claim, units in zip(claims, sizes, strict=True)]
        events = [_next(claim, now) for claim in claims if claim.units]
        events += [job.arrival for job in arrivals[:1]]
        if not events:
            names = ", ".join(claim.job.name for claim in claims)
            raise ValueError(f"{names}: would wait for ever for {capacity} units; ask for fewer")
        end = min(events)
        spans += [
            Span(job=c.job, start=now, end=end, units=c.units, training=now >= c.ready)
            for c in claims
            if c.units
        ]
        claims = [c for c in (_advanced(c, now, end) for c in claims) if c.remaining]
        now = end
    return Timeline(capacity=capacity, spans=tuple(spans))


def _sized(claim: Claim, units: int, now: Exact) -> Claim:
    if units == claim.units:
        return claim
    pause = claim.job.resize if claim.units else claim.job.startup
    return replace(claim, units=units, ready=max(claim.ready, now + pause))


def _next(claim: Claim, now: Exact) -> Exact:
    if now < claim.ready:
        return claim.ready
    return now + claim.remaining / claim.job.speed(claim.units)


def _advanced(claim: Claim, now: Exact, end: Exact) -> Claim:
    if not claim.units or now < claim.ready:
        return claim
    done = (end - now) * claim.job.speed(claim.units)
    return replace(claim, remaining=claim.remaining - done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Two equal jobs on one cluster, as measured with ElasticDL; times in seconds."""

    name: str
    capacity: int
    wanted: int
    second: int
    """When the second job was submitted."""
    gang: int
    elastic: int
    handover: int
    """From the end of the first gang to the training of the second."""


# docs/benchmark/allreduce/report.md in sql-machine-learning/elasticdl: the first job "completes at
# 465s", "the latter job waits for 53s because ElasticDL must launch the master pod firstly".
GPUS = Published(
    name="6 GPUs", capacity=6, wanted=4, second=120, gang=968, elastic=809, handover=53
)
# docs/benchmark/report_cn.md: the first gang ends at 395 s, so 795 - 2 x 395 s are the hand-over.
CPUS = Published(
    name="24 CPUs", capacity=24, wanted=13, second=30, gang=795, elastic=580, handover=5
)
# The recording of the elastic run, docs/benchmark/data/1s.csv, shows 21 CPUs in use for as long as
# both jobs ran and never more: less was free than was rented. No time is taken from it.
CPUS_IN_USE = replace(CPUS, name="21 of 24 CPUs", capacity=21)
# docs/blogs/ata_elastic_scheduling.md: rounded figures; 1300 is twice the 650 s of the first gang.
MANY_CPUS = Published(
    name="320 CPUs", capacity=320, wanted=175, second=300, gang=1300, elastic=1100, handover=0
)
PUBLISHED = (GPUS, CPUS, CPUS_IN_USE, MANY_CPUS)


def jobs_of(row: Published, *, minimum: int = 1, resize: Exact = 0, serial: Exact = 0) -> list[Job]:
    """The two jobs, with the work that makes gang scheduling take the published time.

    The charts begin with the first job's first worker, so that only the second has to be launched.
    """
    running = Fraction(row.gang - row.handover, 2)
    first = Job(
        name="first",
        arrival=0,
        minimum=minimum,
        maximum=row.wanted,
        work=1,
        resize=resize,
        serial=serial,
    )
    first = replace(first, work=running * first.speed(row.wanted))
    return [first, replace(first, name="second", arrival=row.second, startup=row.handover)]


def predicted(row: Published) -> Timeline:
    """The published elastic run, from what was known before it (and, in one row, the capacity)."""
    return simulate(row.capacity, jobs_of(row), elasticdl)


def difference(row: Published) -> float:
    """Predicted over published elastic makespan, less 1."""
    return float(predicted(row).makespan / row.elastic - 1)


def variants(row: Published) -> dict[str, Timeline]:
    """The same two jobs, one thing changed at a time."""
    plain = jobs_of(row)
    urgent = [plain[0], replace(plain[1], priority=1)]

    def elastic(jobs: list[Job]) -> Timeline:
        return simulate(row.capacity, jobs, elasticdl)

    fits = row.capacity - row.wanted
    return {
        "gang": simulate(row.capacity, plain, gang),
        "elastic": elastic(plain),
        # 30 s is ElasticDL's sleep before it meets again (elasticai_api/common/base_controller.py).
        "elastic, 30 s a resize": elastic(jobs_of(row, resize=30)),
        # Horovod's 364 of 4 x 145 images/s on ResNet50, docs/benchmark/ftlib_benchmark.md.
        "elastic, 4 units as fast as 2.5": elastic(jobs_of(row, serial=Fraction(1, 5))),
        f"elastic, minimum {fits}": elastic(jobs_of(row, minimum=fits)),
        f"elastic, minimum {fits + 1}": elastic(jobs_of(row, minimum=fits + 1)),
        "Lattice": simulate(row.capacity, plain, lattice),
        f"Lattice, minimum {fits + 1}": simulate(
            row.capacity, jobs_of(row, minimum=fits + 1), lattice
        ),
        "Lattice, second has priority": simulate(row.capacity, urgent, lattice),
    }


def main() -> None:
    print("Two jobs that do not fit together; the elastic time is predicted, not fitted\n")
    print(table(
        ["cluster", "a job", "second at", "gang", "so a job is", "elastic, published",
         "predicted", "off by", "saves, published", "predicted"],
        [_comparison(row) for row in PUBLISHED],
        color=False,
    ))  # fmt: skip
    print("What the clusters did\n")
    print(table(
        ["cluster", "schedule", *TIMELINE],
        [
            [row.name, name, *_timeline(simulate(row.capacity, jobs_of(row), policy))]
            for row in PUBLISHED
            for name, policy in POLICIES.items()
        ],
        color=False,
    ))  # fmt: skip
    print(f"{GPUS.name}, one thing changed at a time\n")
    rows = [[name, *_timeline(timeline)] for name, timeline in variants(GPUS).items()]
    print(table(["schedule", *TIMELINE], rows, color=False), end="")


def _comparison(row: Published) -> list[str]:
    elastic = float(predicted(row).makespan)
    return [
        row.name,
        f"{row.wanted} units",
        f"{row.second} s",
        f"{row.gang} s",
        f"{float(jobs_of(row)[0].work):.0f} unit-s",
        f"{row.elastic} s",
        f"{elastic:.1f} s",
        f"{difference(row):+.1%}",
        f"{1 - row.elastic / row.gang:.1%}",
        f"{1 - elastic / row.gang:.1%}",
    ]


TIMELINE = (
    "first ends",
    "second gets units",
    "trains from",
    "both ended",
    "most in use",
    "full until",
    "mean use",
)


def _timeline(timeline: Timeline) -> list[str]:
    second = timeline.held("second")
    full = timeline.full_until
    return [
        f"{float(timeline.held('first')[-1].end):.1f} s",
        f"{float(second[0].start):.1f} s",
        f"{float(next(span.start for span in second if span.training)):.1f} s",
        f"{float(timeline.makespan):.1f} s",
        f"{timeline.peak} of {timeline.capacity} ({timeline.peak / timeline.capacity:.1%})",
        "never" if full is None else f"{float(full):.1f} s",
        f"{float(timeline.use):.1%}",
    ]


if __name__ == "__main__":
    main()
