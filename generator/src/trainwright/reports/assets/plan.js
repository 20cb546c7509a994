// The list of jobs, their diffs side by side, shared files and findings.

function pairs(lines) {
  const rows = [];
  let [old, now, removed, added] = [0, 0, [], []];
  const flush = () => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) {
      rows.push({ before: removed[i], after: added[i] });
    }
    [removed, added] = [[], []];
  };
  for (const line of lines) {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (hunk) {
      flush();
      [old, now] = [Number(hunk[1]), Number(hunk[2])];
      rows.push({ hunk: line });
    } else if (line.startsWith("-")) removed.push([old++, line.slice(1)]);
    else if (line.startsWith("+")) added.push([now++, line.slice(1)]);
    else {
      flush();
      rows.push({ before: [old++, line.slice(1)], after: [now++, line.slice(1)], same: true });
    }
  }
  flush();
  return rows;
}

function diffTable(file) {
  const cells = (side, kind) => [
    element("td", { class: side ? "number" : "number none" }, side ? String(side[0]) : ""),
    element("td", { class: side ? kind : "none" }, side ? side[1] : ""),
  ];
  const rows = pairs(file.lines).map((row) =>
    row.hunk
      ? element("tr", { class: "hunk" }, element("td", { colspan: 4 }, row.hunk))
      : element("tr", { class: row.same ? "same" : "" }, ...cells(row.before, row.same ? "" : "removed"), ...cells(row.after, row.same ? "" : "added")));
  const count = (sign) => file.lines.filter((text) => text.startsWith(sign)).length;
  return element("table", { class: "diff" },
    element("caption", {}, `${file.name}: ${count("-")} removed, ${count("+")} added`),
    element("colgroup", {}, element("col", { class: "number" }), element("col"), element("col", { class: "number" }), element("col")),
    element("tbody", {}, ...rows));
}

function details(change, link) {
  const parts = [];
  parts.push(element("p", {}, ...prose(change.why)), commands(change.commands) ?? "");
  if (change.runs) parts.push(element("p", { class: "muted" }, change.runs));
  if (change.causes.length) parts.push(causes(change.causes, link));
  if (change.files === null) parts.push(element("p", { class: "note" }, "The diff was left out to keep this page small: run the plan in a terminal, or git diff."));
  else if (change.files.length) parts.push(...change.files.map(diffTable));
  else parts.push(element("p", { class: "muted" }, "No rendered manifest changes."));
  return element("div", { class: "body" }, ...parts);
}

// Jobs to which the same happens are one row, which has a row for each of them inside.
function row(changes, plan) {
  if (changes.length === 1) return single(changes[0], plan);
  const all = [...new Set(changes.flatMap((change) => change.commands))];
  const inside = () => element("div", { class: "body" }, commands(all), ...changes.map((change) => single(change, plan)));
  return folded(summary(changes[0], changes), inside);
}

function single(change, plan) {
  return folded(summary(change, [change]), () => details(change, plan.link));
}

// What changed in the specs, and what follows from it, which the inside has in full.
function summary(change, changes) {
  const first = change.causes[0];
  const more = change.causes.length > 1 ? `, and ${change.causes.length - 1} more` : "";
  const others = changes.length > 1 ? ` and ${changes.length - 1} more` : "";
  return line({
    badges: [{ name: change.action, tone: change.tone }, ...change.concerns],
    job: change.job + others, team: change.team, asked: others ? change.together : change.asked,
    why: [first ? element("code", { class: "cause" }, `${first.text}${more}`) : null, element("span", { class: "follows" }, ...prose(change.brief))],
  });
}

function alike(changes) {
  const groups = new Map();
  for (const change of changes) groups.set(change.group, groups.get(change.group) ?? []).get(change.group).push(change);
  return [...groups.values()];
}

function searched(change) {
  const causes = change.causes.map((cause) => `${cause.text} ${cause.file}`);
  return [change.job, change.team, change.action, change.why, change.runs, ...causes].join(" ").toLowerCase();
}

function shared(plan) {
  if (!plan.shared.length) return;
  byId("shared-section").hidden = false;
  byId("shared").append(...plan.shared.map((file) =>
    element("details", { class: "group" },
      element("summary", {}, element("code", {}, file.file), " ", element("span", { class: "count" }, ...prose(file.reach))),
      causes(file.causes, plan.link))));
}

// What the template wrote as a command.
document.querySelectorAll("code.command").forEach((code) => code.replaceWith(commands([code.textContent])));

unpack().then((plan) => {
  plan.changes.forEach((change) => { change.chips = [change.action, ...change.concerns.map((one) => one.name)]; });
  listing({
    items: plan.changes, chips: plan.chips, key: "action", environments: plan.environments, teams: plan.teams,
    sorts: {}, searched, gather: alike, draw: (changes) => row(changes, plan), none: "none change",
  });
  shared(plan);
  findings(plan.findings, plan.link);
  document.documentElement.dataset.ready = "true";
});
