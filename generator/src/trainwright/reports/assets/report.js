// Every job with its run, what outdates that, its finished runs, and what happened in git.

function facts(pairs) {
  const rows = pairs.filter(([, value]) => value);
  return element("table", { class: "list" }, element("tbody", {}, ...rows.map(([name, value]) =>
    element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value)))));
}

// A row for each run of which there is a report, with the parts of its time as one bar and as words.
function goodput(list) {
  const bar = (parts) => {
    let x = 0;
    return element("svg", { class: "spark parts", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      ...parts.map((part) => element("rect", { class: part.name, x: (x += part.width) - part.width, width: part.width, height: 8 })));
  };
  const words = (parts) => element("p", { class: "parts" }, ...parts.map((part) =>
    element("span", {}, element("span", { class: `key ${part.name}` }), ` ${part.name} ${part.share}`)));
  return element("table", { class: "list" },
    element("caption", {}, "Goodput"),
    element("thead", {}, element("tr", {}, ...["run", "goodput", "ETTR", "MPG", "time", "restarts", "where the time went"].map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...list.map((run) => element("tr", {},
      element("td", {}, run.object),
      ...[run.goodput, run.ettr, run.mpg, run.time, String(run.restarts)].map((value) => element("td", { class: "figure" }, value)),
      element("td", {}, bar(run.parts), words(run.parts), ...run.failures.map((failure) => element("p", {}, `failure: ${failure}`)))))));
}

function details(job, link) {
  const parts = [facts([
    ["source", placed({ file: job.file, line: 1 }, link, job.file)], ["run", job.object], ["target", job.target],
    ["image", job.image], ["pool", job.pool], ["team", job.team === job.queue ? "" : job.team], ["queue", job.queue],
    ["requests", job.asked.filter(Boolean).join(", ")],
    ["cluster", job.live && [job.live.phase, job.live.reason, job.live.message].filter(Boolean).join(": ")],
  ])];
  if (job.held.length) {
    parts.push(element("p", {}, "Keeps old values until ", element("code", {}, `trainwright rerun ${job.job}`), ":"), causes(job.held, link));
  }
  const deletions = job.commands.filter(Boolean);
  if (deletions.length) parts.push(element("p", {}, "What git has no more goes on until it is deleted:"), commands(deletions));
  if (job.roles.length) {
    parts.push(element("table", { class: "list" },
      element("caption", {}, "Roles"),
      element("thead", {}, element("tr", {}, ...["role", "nodes", "GPUs", "pool", "image", "ready"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...job.roles.map((role) =>
        element("tr", {}, ...[role.role, role.nodes, role.gpus, role.pool, role.image, role.ready].map((value) => element("td", {}, value)))))));
  }
  if (job.goodput.length) parts.push(goodput(job.goodput));
  if (job.finished.length) {
    parts.push(element("table", { class: "list" },
      element("caption", {}, "Finished runs"),
      element("thead", {}, element("tr", {}, ...["object", "outcome", "date", "reason"].map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...job.finished.map((run) =>
        element("tr", {}, ...[run.object, run.outcome, run.date, run.reason].map((value) => element("td", {}, value)))))));
  }
  return element("div", { class: "body" }, ...parts);
}

function row(job, report) {
  const present = job.goodput.find((run) => run.object === job.object);
  const lines = [...job.why, job.live && `in the cluster: ${job.live.phase}`, present && `goodput ${present.goodput}`].filter(Boolean);
  return folded(line({
    badges: [{ name: job.status, tone: job.tone }], job: job.job, team: job.team, asked: job.asked,
    why: [...lines.map((text) => element("span", { class: "reason" }, ...prose(text))), job.object ? element("code", { class: "object" }, job.object) : null],
  }), () => details(job, report.link));
}

// The head of a column sorts the rows of its table, numbers by their size, and turns them round.
function sortable() {
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    const value = (row, column) => row.cells[column].dataset.sort;
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const numbers = [...table.tBodies[0].rows].every((row) => !Number.isNaN(Number(value(row, column))));
      const first = numbers ? "descending" : "ascending";
      const other = numbers ? "ascending" : "descending";
      const order = head.getAttribute("aria-sort") === first ? other : first;
      const turned = order === "descending" ? -1 : 1;
      const rows = [...table.tBodies[0].rows].sort((one, two) => turned * (numbers
        ? Number(value(one, column)) - Number(value(two, column))
        : value(one, column).localeCompare(value(two, column))));
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", order);
      table.tBodies[0].append(...rows);
    }));
  }
}

function events(list) {
  const target = byId("events");
  if (!target) return;
  target.closest("details").addEventListener("toggle", () => target.children.length ||
    fill(target, list, (event) => element("p", {},
      element("time", { datetime: event.when }, event.when.slice(0, 10)), ` ${event.job} `,
      element("strong", {}, event.what), ` ${event.object} `, element("span", { class: "muted" }, `${event.subject} (${event.commit.slice(0, 10)})`))));
}

unpack().then((report) => {
  report.jobs.forEach((job) => { job.chips = [...job.needs, job.state, ...(job.live ? [`cluster: ${job.live.phase}`] : [])]; });
  const clusters = report.jobs.filter((job) => job.live).map((job) => `cluster: ${job.live.phase}`);
  const limits = byId("limits");  // would be all that a phone shows; what is exceeded is above
  if (limits && PHONE.matches) limits.open = false;
  listing({
    items: report.jobs, key: "state", environments: report.environments, teams: report.teams, none: "no jobs",
    chips: [...new Set([...report.needs, ...report.jobs.map((job) => job.state), ...clusters])],
    sorts: {
      "needs attention": null,
      name: (one, two) => one.job.localeCompare(two.job),
      GPUs: (one, two) => two.gpus - one.gpus,
      "GPU-hours": (one, two) => two.hours - one.hours,
    },
    searched: (job) => [job.job, job.team, job.status, ...job.why, job.object, job.image, ...job.roles.map((role) => `${role.role} ${role.image}`), job.pool, job.queue].join(" ").toLowerCase(),
    draw: (job) => row(job, report),
  });
  sortable();
  events(report.events);
  findings(report.findings, report.link);
  document.documentElement.dataset.ready = "true";
});
