// Elements, data blocks, numbers and badges that every tab uses. Text only ever becomes a text node.
const SVG = "http://www.w3.org/2000/svg";
const $ = (id) => document.getElementById(id);
let main = null;

function fill(node, attrs, children) {
  for (const [name, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false)
      node.append(child instanceof Node ? child : String(child));
  }
  return node;
}
const h = (tag, attrs, ...children) => fill(document.createElement(tag), attrs, children);
const s = (tag, attrs, ...children) => fill(document.createElementNS(SVG, tag), attrs, children);

// Data blocks are gzip in base64; each is opened once, when it is first needed.
const opened = new Map();
function unpack(name) {
  if (!opened.has(name)) opened.set(name, openBlock(name));
  return opened.get(name);
}
async function openBlock(name) {
  const bytes = Uint8Array.from(atob($(`data-${name}`).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function num(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0"; // also -0
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e6) return value.toLocaleString("en");
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(Math.max(digits - 2, 1));
  return String(Number(value.toPrecision(size >= 1000 ? 4 : digits)));
}
const share = (value, digits = 1) =>
  value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`;
const signed = (value) => (value === null || value === undefined ? "–" : `${value > 0 ? "+" : ""}${num(value)}`);
const many = (count, noun, plural = `${noun}s`) => `${count.toLocaleString("en")} ${count === 1 ? noun : plural}`;
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const short = (text, width = 90) => (text.length > width ? `${text.slice(0, width - 1)}…` : text);
// A task without the type that it begins with, which has a column of its own.
const taskName = ({ task, type }) =>
  short(task.startsWith(type) ? task.slice(type.length).replace(/^[-_/]/, "") || task : task, 300);
const words = (name) => name.replaceAll("_", " ");
function duration(seconds) {
  if (!seconds) return "–";
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min` : `${Math.round(seconds)} s`;
}

// Never colour alone: every badge has a sign and a word.
const badge = (kind, sign, text) =>
  h("span", { class: `badge ${kind}` }, h("span", { "aria-hidden": "true" }, sign), text);
const wonBadge = (won) => (won ? badge("good", "✓", "success") : badge("bad", "✗", "failure"));
const OUTCOME = {
  accepted: ["yes", "●", "accepted"],
  rejected: ["no", "⊘", "rejected"],
  empty: ["", "∅", "nothing found"],
  replayed: ["watch", "↻", "replayed"],
};
const outcomeBadge = (outcome) => badge(...(OUTCOME[outcome] || ["", "?", outcome]));
const STATE = { active: ["good", "●"], provisional: ["watch", "◐"], summary: ["yes", "≡"], archived: ["", "○"] };
const stateBadge = (state) => badge(...(STATE[state] || ["", "?"]), state);

const section = (title, lead, ...body) =>
  h("section", {}, h("h2", {}, title), lead && h("p", { class: "lead" }, lead), body);
const card = (...body) => h("div", { class: "card" }, body);
const field = (label, ...controls) => h("label", { class: "field" }, label, controls);
const nothing = (text) => h("p", { class: "empty" }, text);
const part = (what, ...body) => h("div", { class: "part" }, h("div", { class: "what" }, what), body);
const TALL = 1500;
const raw = (text, kind = "") =>
  h(
    "div",
    { class: `raw ${kind} ${text.length > TALL ? "tall" : ""}`, dir: "auto", tabindex: text.length > TALL ? 0 : null },
    text,
  );

function choice(options, value, onchange, attrs = {}) {
  const build = ([key, text]) => h("option", { value: key, selected: String(key) === String(value) }, text);
  return h("select", { ...attrs, onchange: (event) => onchange(event.target.value) }, options.map(build));
}
// Columns: [title, "r" for numbers or a class, cell of a row].
function table(columns, rows, label) {
  const head = columns.map(([title, kind]) => h("th", { class: kind === "r" ? "r" : null, scope: "col" }, title));
  const body = rows.map((row) =>
    row.heading
      ? h("tr", { class: "panel" }, h("td", { colspan: columns.length }, row.heading))
      : h(
          "tr",
          {},
          columns.map(([, kind, cell]) => h("td", { class: kind || null }, cell(row))),
        ),
  );
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body)),
  );
}
const pairs = (entries) =>
  h(
    "dl",
    {},
    entries
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );

// A column title that sorts; `state` is {sort, down}.
function sorter(title, key, state, redraw) {
  const on = state.sort === key;
  const turn = () => {
    state.down = on ? !state.down : true;
    state.sort = key;
    redraw();
  };
  return h(
    "button",
    { type: "button", onclick: turn, "aria-label": `sort by ${title}` },
    title,
    on ? (state.down ? " ↓" : " ↑") : "",
  );
}
// The rows of one page and the buttons to turn it.
function pager(count, size, state, redraw) {
  const last = Math.max(0, Math.ceil(count / size) - 1);
  state.page = Math.min(Math.max(Number(state.page) || 0, 0), last);
  const turn = (step) => () => {
    state.page += step;
    redraw();
  };
  const shown = count
    ? `${(state.page * size + 1).toLocaleString("en")}–${Math.min(count, (state.page + 1) * size).toLocaleString("en")} of `
    : "";
  return h(
    "div",
    { class: "pager" },
    h("button", { type: "button", disabled: state.page === 0, onclick: turn(-1) }, "← Back"),
    h("span", { class: "num" }, shown, count.toLocaleString("en")),
    h("button", { type: "button", disabled: state.page === last, onclick: turn(1) }, "Next →"),
  );
}
