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

const folded = (text) => text.toLowerCase();
const matches = (text, query) => folded(query).split(/\s+/).every((word) => text.includes(word));

// A bar of what one job asks for beside the largest; the number stands next to it as text.
function spark(share) {
  const width = Math.max(1, Math.round(100 * share));
  return element("svg", { class: "spark", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    element("rect", { class: "track", width: 100, height: 8 }),
    element("rect", { class: "need", width, height: 8 }));
}

// Lists of thousands are put into the page in parts: the first at once, the others as it idles.
function fill(target, items, draw, first = 60, part = 200) {
  const turn = (target.turn = (target.turn ?? 0) + 1);
  target.replaceChildren(...items.slice(0, first).map(draw));
  let done = first;
  const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 0));
  const next = () => {
    if (target.turn !== turn || done >= items.length) return;
    target.append(...items.slice(done, done + part).map(draw));
    done += part;
    idle(next);
  };
  idle(next);
}

function onSlash(input) {
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      input.focus();
    }
  });
}
