// What every page uses. Text only ever becomes text nodes and attributes, never markup.

const byId = (id) => document.getElementById(id);

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "rect", "title", "line", "circle", "text"]);

function element(name, attributes = {}, ...children) {
  const made = DRAWN.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== "") made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// Words with code in pairs of backticks, as text and elements.
function prose(text) {
  const parts = text.split("`");
  return parts.length % 2 ? parts.map((part, at) => (at % 2 ? element("code", {}, part) : part)) : [text];
}

// Commands to be run one after the other, with a button that copies them.
function commands(list) {
  if (!list.length) return null;
  const text = list.join("\n");
  const button = element("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", () => navigator.clipboard.writeText(text).then(() => { button.textContent = "Copied"; }));
  return element("div", { class: "commands" }, element("pre", {}, text), navigator.clipboard ? button : null);
}

async function unpack() {
  const text = atob(byId("data").content.textContent.trim());
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// A place in a file, which is a link where the address of the repository is known.
function placed(place, link, text) {
  const shown = text ?? `${place.file}:${place.line}`;
  if (!link) return element("code", {}, shown);
  const path = place.file.split("/").map(encodeURIComponent).join("/");
  return element("a", { href: `${link}/${path}#L${place.line}`, rel: "noreferrer" }, shown);
}

// Filters live in the address, so that a link shows what its sender saw.
const address = {
  read: () => new URLSearchParams(location.hash.slice(1)),
  write(values) {
    const kept = new URLSearchParams();
    for (const [key, value] of Object.entries(values)) if (value) kept.set(key, value);
    const hash = kept.toString();
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  },
};

const matches = (text, query) => query.toLowerCase().split(/\s+/).every((word) => text.includes(word));

// Lists of thousands are put into the page in parts: the first at once, the others as it idles.
function fill(target, items, draw, first = 60, part = 200) {
  const turn = (target.turn = (target.turn ?? 0) + 1);
  filled.add(target);
  target.replaceChildren(...items.slice(0, first).map(draw));
  let done = first;
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 0));
  const next = () => {
    if (target.turn !== turn || done >= items.length) return;
    target.append(...items.slice(done, done + part).map(draw));
    done += part;
    idle(next);
  };
  target.rest = () => {
    target.append(...items.slice(done).map(draw));
    done = items.length;
  };
  idle(next);
}

// Paper has all rows, also those that the page had no time for yet.
const filled = new Set();
addEventListener("beforeprint", () => filled.forEach((target) => target.rest()));

function onSlash(reach) {
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      reach();
    }
  });
}

function causes(list, link) {
  return element("ul", { class: "causes" }, ...list.map((cause) =>
    element("li", {}, cause.text, " ", placed(cause, link),
      cause.authored ? element("code", { class: "authored" }, cause.authored) : null)));
}

function findings(all, link) {
  if (!all.length) return;
  byId("findings-section").hidden = false;
  const grouping = byId("grouping");
  grouping.parentElement.hidden = grouped(all, "team").length < 2;
  const show = () => byId("findings").replaceChildren(
    ...grouped(all, grouping.value).map(([, found]) => group(found, grouping.value === "team", link)));
  grouping.addEventListener("change", show);
  show();
}

function grouped(all, key) {
  const groups = new Map();
  for (const one of all) groups.set(one[key], groups.get(one[key]) ?? []).get(one[key]).push(one);
  return [...groups];
}

// The findings of a rule, or those of a team, which name their rules.
function group(found, byTeam, link) {
  const [{ rule, name, help, team }] = found;
  const about = (one) => element("a", { href: one.help, rel: "noreferrer" }, byTeam ? one.rule : `About ${rule}`);
  const list = element("div");
  const made = element("details", { class: "group" },
    element("summary", {}, byTeam ? `${team} ` : `${rule} ${name} `, element("span", { class: "count" }, String(found.length))),
    byTeam ? null : element("p", {}, about({ help })), list);
  made.addEventListener("toggle", () => made.open && !list.children.length &&
    fill(list, found, (one) => element("div", { class: `finding ${one.severity}` },
      element("p", {}, element("strong", {}, one.severity), " ", byTeam ? about(one) : null, byTeam ? " " : null, ...prose(one.message), " ", placed(one, link)),
      one.authored ? element("code", { class: "authored" }, one.authored) : null,
      one.effect ? element("p", { class: "muted" }, ...prose(one.effect)) : null,
      element("p", {}, ...prose(one.remedy)))));
  made.open = found.some((one) => one.severity === "error");
  return made;
}

// A select of what there is to choose from; it is hidden where there is no choice.
function choice(id, names) {
  const made = byId(id);
  made.append(...names.map((name) => element("option", { value: name }, name)));
  made.parentElement.hidden = names.length < 2;
  made.value = address.read().get(id) ?? made.options[0]?.value ?? "";
  return made;
}

const FEW = 6;  // rows that are seen at a glance: they need no filters
const PHONE = matchMedia("(max-width: 50rem)");

// A list with its search, its selects and its chips; what they say is in the address.
function listing({ items, chips, key, environments, teams, sorts, searched, draw, none, gather = (found) => found }) {
  const [filters, search, group] = [byId("filters"), byId("search"), byId("actions")];
  items.forEach((item) => { item.searched = searched(item); });
  const wanted = () => new Set((address.read().get(key) ?? "").split(",").filter(Boolean));
  let chosen = wanted();
  const [environment, team] = [choice("environment", environments), choice("team", teams)];
  const order = choice("sort", Object.keys(sorts));
  const counted = chips.map((name) => [name, items.filter((item) => item.chips.includes(name)).length]);
  group.append(...counted.filter(([, count]) => count < items.length).map(([name, count]) => {
    const button = element("button", { type: "button", value: name }, `${name} ${count}`);
    button.addEventListener("click", () => {
      if (!chosen.delete(name)) chosen.add(name);
      show();
    });
    return button;
  }));
  search.value = address.read().get("q") ?? "";
  const isChosen = () => Boolean(search.value || environment.value || team.value || order.selectedIndex > 0 || chosen.size);
  [filters.hidden, filters.open, byId("heads").hidden] = [items.length <= FEW, !PHONE.matches, !items.length];
  // A link on the page may choose, too.
  addEventListener("hashchange", () => {
    if (!location.hash.includes("=")) return;
    search.value = address.read().get("q") ?? "";
    [environment, team].forEach((select) => { select.value = address.read().get(select.id) ?? ""; });
    chosen = wanted();
    show();
    byId("shown").scrollIntoView();
  });
  const show = () => {
    [...group.children].forEach((button) => button.setAttribute("aria-pressed", String(chosen.has(button.value))));
    const found = items.filter((item) =>
      (!chosen.size || item.chips.some((chip) => chosen.has(chip))) &&
      (!environment.value || item.environment === environment.value) &&
      (!team.value || item.team === team.value) &&
      matches(item.searched, search.value));
    const by = sorts[order.value];
    if (by) found.sort(by);
    byId("shown").textContent = items.length ? `${found.length} of ${items.length}` : none;
    if (isChosen()) [filters.hidden, filters.open] = [false, true];
    fill(byId("list"), gather(found), draw);
    address.write({ q: search.value, environment: environment.value, team: team.value, sort: order.selectedIndex > 0 ? order.value : "", [key]: [...chosen].join(",") });
  };
  search.addEventListener("input", show);
  [environment, team, order].forEach((select) => select.addEventListener("change", show));
  filters.addEventListener("submit", (event) => event.preventDefault());
  onSlash(() => {
    [filters.hidden, filters.open] = [false, true];
    search.focus();
  });
  show();
}

// What is in sight of a job, in the columns of the list.
function line({ badges, job, team, why, asked }) {
  return element("summary", {},
    element("span", { class: "badges" }, ...badges.map(({ name, tone }) => element("span", { class: `badge ${tone}` }, name))),
    element("span", { class: "job" }, job),
    element("span", { class: "team" }, team),
    element("span", { class: "why" }, ...why),
    ...asked.map((text) => element("span", { class: "asked" }, text)));
}

// A row that makes its inside when it is opened for the first time.
function folded(summary, inside) {
  const made = element("details", { class: "row" }, summary);
  made.addEventListener("toggle", () => {
    if (made.open && !made.querySelector(".body")) made.append(inside());
  });
  return made;
}
