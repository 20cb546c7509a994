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
    element("td", { class: "number" }, side ? String(side[0]) : ""),
    element("td", { class: side ? kind : "" }, side ? side[1] : ""),
  ];
  const rows = pairs(file.lines).map((row) =>
    row.hunk
      ? element("tr", { class: "hunk" }, element("td", { colspan: 4 }, row.hunk))
      : element("tr", {}, ...cells(row.before, row.same ? "" : "removed"), ...cells(row.after, row.same ? "" : "added")));
  return element("table", { class: "diff" },
    element("caption", {}, file.name),
    element("colgroup", {}, element("col", { class: "number" }), element("col"), element("col", { class: "number" }), element("col")),
    element("tbody", {}, ...rows));
}

function causes(list, link) {
  return element("ul", { class: "causes" }, ...list.map((cause) =>
    element("li", {}, cause.text, " ", placed(cause, link),
      cause.authored ? element("code", { class: "authored" }, cause.authored) : null)));
}

function details(change, link) {
  const parts = [];
  if (change.image) parts.push(element("p", { class: "muted" }, `image ${change.image}`));
  if (change.causes.length) parts.push(causes(change.causes, link));
  if (change.files === null) parts.push(element("p", { class: "note" }, "The diff was left out to keep this page small: run the plan in a terminal, or git diff."));
  else if (change.files.length) parts.push(...change.files.map(diffTable));
  else parts.push(element("p", { class: "muted" }, "No rendered manifest changes."));
  return element("div", { class: "body" }, ...parts);
}

function row(change, plan) {
  const first = change.causes[0];
  const more = change.causes.length > 1 ? `, and ${change.causes.length - 1} more` : "";
  const made = element("details", { class: "row" },
    element("summary", {},
      element("span", { class: `badge ${change.tone}` }, change.action),
      element("span", { class: "job" }, change.job),
      element("span", {}, change.why, first ? element("br") : null, first ? `${first.text}${more}` : null),
      element("span", { class: "asked" }, change.asked, change.hours > 0 ? spark(change.hours / plan.hours) : null)));
  made.addEventListener("toggle", () => {
    if (made.open && !made.querySelector(".body")) made.append(details(change, plan.link));
  });
  return made;
}

function searched(change) {
  return folded([change.job, change.action, change.why, change.image, ...change.causes.map((c) => `${c.text} ${c.file}`)].join(" "));
}

function shared(plan) {
  if (!plan.shared.length) return;
  byId("shared-section").hidden = false;
  byId("shared").append(...plan.shared.map((file) =>
    element("details", { class: "group" },
      element("summary", {}, element("code", {}, file.file), ` ${file.reach}`),
      causes(file.causes, plan.link))));
}

function findings(plan) {
  if (!plan.findings.length) return;
  byId("findings-section").hidden = false;
  const groups = Map.groupBy
    ? Map.groupBy(plan.findings, (finding) => finding.rule)
    : plan.findings.reduce((all, one) => all.set(one.rule, [...(all.get(one.rule) ?? []), one]), new Map());
  byId("findings").append(...[...groups].map(([rule, found]) => {
    const list = element("div");
    const group = element("details", { class: "group" },
      element("summary", {}, `${rule} ${found[0].name} `, element("span", { class: "count" }, String(found.length))),
      element("p", {}, element("a", { href: found[0].help, rel: "noreferrer" }, `About ${rule}`)), list);
    group.addEventListener("toggle", () => group.open && !list.children.length &&
      fill(list, found, (one) => element("div", { class: `finding ${one.severity}` },
        element("p", {}, element("strong", {}, one.severity), " ", one.message, " ", placed(one, plan.link)),
        one.authored ? element("code", { class: "authored" }, one.authored) : null,
        one.effect ? element("p", { class: "muted" }, one.effect) : null,
        element("p", {}, one.remedy))));
    group.open = found[0].severity === "error";
    return group;
  }));
}

function begin(plan) {
  const [search, environment, chips] = [byId("search"), byId("environment"), byId("actions")];
  plan.changes.forEach((change) => { change.searched = searched(change); });
  environment.append(...plan.environments.map((name) => element("option", { value: name }, name)));
  const chosen = new Set((address.read().get("action") ?? "").split(",").filter(Boolean));
  chips.append(...plan.actions.map(({ action, count }) => {
    const button = element("button", { type: "button", "aria-pressed": String(chosen.has(action)) }, `${action} ${count}`);
    button.addEventListener("click", () => {
      if (!chosen.delete(action)) chosen.add(action);
      button.setAttribute("aria-pressed", String(chosen.has(action)));
      show();
    });
    return button;
  }));
  search.value = address.read().get("q") ?? "";
  environment.value = address.read().get("environment") ?? "";
  const show = () => {
    const found = plan.changes.filter((change) =>
      (!chosen.size || chosen.has(change.action)) &&
      (!environment.value || change.environment === environment.value) &&
      matches(change.searched, search.value));
    byId("shown").textContent = plan.changes.length ? `${found.length} of ${plan.changes.length}` : "none change";
    fill(byId("list"), found, (change) => row(change, plan));
    address.write({ q: search.value, environment: environment.value, action: [...chosen].join(",") });
  };
  search.addEventListener("input", show);
  environment.addEventListener("change", show);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  onSlash(search);
  show();
  shared(plan);
  findings(plan);
  document.documentElement.dataset.ready = "true";
}

unpack().then(begin);
