"""For programs: a versioned envelope that schemas/plan.schema.json describes."""

from __future__ import annotations

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Waiver
from trainwright.datatypes.finding import ValueChange
from trainwright.findings.credentials import redact
from trainwright.plan import headline, words
from trainwright.plan.model import (
    Ending,
    EnvironmentPlan,
    JobChange,
    LeftRun,
    ObjectChange,
    Plan,
    PlannedRun,
    SettingChange,
    SharedFileImpact,
    WiringChange,
)
from trainwright.plan.running import Running, running
from trainwright.reports.json import finding_data, place_of
from trainwright.reports.style import Style, document
from trainwright.reports.values import value_line
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import Demand, Range


def render(plan: Plan, style: Style) -> str:
    return document(
        "Plan",
        {
            "command": style.command,
            "against": style.against,
            "base": plan.base,
            "head": plan.head,
            "behind": plan.behind,
            "underived": [finding_data(finding) for finding in plan.underived],
            "verdict": headline.verdict(plan),
            "blocked": plan.blocked,
            "losesProgress": sum(change.loses for change in plan.changes),
            "changes": [_change(change) for change in plan.changes],
            "environments": [_environment(item) for item in plan.environments],
            "objects": [_object(change) for change in plan.objects],
            "wiring": _wiring(plan.wiring),
            "policies": [
                {**_setting(change), "loosens": change.loosens} for change in plan.policies
            ],
            "amounts": [_setting(change) for change in plan.amounts],
            "sharedFiles": [_shared_file(item) for item in plan.shared_files],
            "findings": [finding_data(finding) for finding in plan.findings],
        },
    )


def _change(change: JobChange) -> Data:
    return {
        "job": str(change.file),
        "source": change.file.path,
        "was": str(change.was) if change.was else "",
        "action": change.action.value,
        "why": change.why,
        "causes": [_cause(cause) for cause in change.causes],
        "before": _run(change.before),
        "after": _run(change.after),
        "ending": _ending(change.ending),
        "waivers": [_waiver(waiver) for waiver in change.waivers],
        "requests": _demand(change.asked),
    }


def _wiring(change: WiringChange) -> Data:
    return {
        "stale": list(change.stale),
        "foreign": list(change.foreign),
        "changed": list(change.changed),
        "missing": list(change.missing),
        "settings": [_setting(it) for it in change.settings],
    }


def _setting(change: SettingChange) -> dict[str, Data]:
    return {"environment": change.environment, "cause": _cause(change.cause)}


def _waiver(waiver: Waiver) -> Data:
    return {
        "rule": waiver.rule,
        "reason": redact(waiver.reason),
        "until": waiver.until,
        "place": place_of(waiver.place),
    }


def _ending(ending: Ending | None) -> Data:
    if ending is None:
        return None
    return {
        "object": ending.object,
        "losesProgress": ending.loses,
        "waits": ending.waits,
        "command": ending.command,
    }


def _cause(cause: ValueChange) -> Data:
    return {
        "path": cause.path.dotted,
        "note": cause.note,
        "before": value_line(cause.path, cause.before),
        "after": value_line(cause.path, cause.after),
        "earlier": cause.earlier,
        "place": place_of(cause.place),
    }


def _run(run: PlannedRun | None) -> Data:
    if run is None:
        return None
    return {
        "object": run.object,
        "target": run.target,
        "image": ", ".join(words.images(run)),
        "queue": run.queue,
        "state": run.state,
        "runs": _running(running(run)),
    }


def _running(run: Running) -> Data:
    def shown(texts: tuple[str, ...]) -> list[str]:
        return [redact(text) for text in texts]

    return {
        "images": shown(run.images),
        "commands": shown(run.commands),
        "serviceAccounts": shown(run.accounts),
        "privileges": shown(run.privileges),
        "hostPaths": shown(run.host_paths),
        "objects": shown(run.objects),
    }


def _demand(demand: Demand) -> Data:
    return {
        "nodes": _range(demand.nodes),
        "gpus": _range(demand.gpus),
        "gpuHours": _range(demand.hours),
        "cost": _range(demand.cost),
        "unboundedJobs": demand.unbounded,
        "unpricedJobs": demand.unpriced,
    }


def _range(value: Range) -> Data:
    return {"low": round(value.low, 4), "high": round(value.high, 4)}


def _environment(environment: EnvironmentPlan) -> Data:
    return {
        "name": environment.name,
        "jobs": environment.jobs,
        "currency": environment.currency,
        "currencyBefore": environment.currency_before,
        "before": _demand(environment.before),
        "after": _demand(environment.after),
        "requests": _demand(environment.asked),
        "capacity": [_capacity(fit) for fit in environment.fits],
        "left": [_left(run) for run in environment.left],
        "unread": bool(environment.unread),
        "removed": environment.removed,
    }


def _left(run: LeftRun) -> Data:
    return {
        "job": str(run.file),
        "object": run.object,
        "command": run.command,
        "requests": _demand(run.demand),
    }


def _capacity(fit: CapacityCheck) -> Data:
    return {
        "what": fit.what,
        "unit": fit.unit,
        "need": round(fit.need, 4),
        "most": round(fit.most, 4),
        "has": fit.has,
        "hasBefore": fit.has_before,
        "unknown": fit.unknown,
        "short": round(fit.short, 4),
        "shortBefore": round(fit.short_before, 4),
    }


def _object(change: ObjectChange) -> Data:
    return {
        "environment": change.environment,
        "object": change.object,
        "action": change.action,
        "grants": change.grants,
        "granted": change.granted,
        "until": change.until,
        "other": change.other,
        "effects": list(change.effects),
        "refused": change.refused,
        "place": place_of(change.place),
    }


def _shared_file(shared: SharedFileImpact) -> Data:
    return {
        "file": shared.file,
        "newRuns": shared.new_runs,
        "outdated": shared.held,
        "causes": [_cause(cause) for cause in shared.causes],
        "jobs": [str(file) for file in shared.jobs],
    }
