// The address after # says what is shown: tab/part/part?name=value. Back, forward and copied links all work.
const TABS = { overview: "Overview", training: "Training", episodes: "Episodes", bank: "Bank", compare: "Compare" };
const VIEWS = {};
let shown = 0;
let step = { back: null, on: null };

function where() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const [tab, ...rest] = path.split("/").map(decode);
  return {
    tab: VIEWS[tab] ? tab : "overview",
    path: rest,
    params: Object.fromEntries(new URLSearchParams(query || "")),
  };
}
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
function address(tab, path = [], params = {}) {
  const kept = Object.entries(params).filter(
    ([, value]) => value !== "" && value !== null && value !== undefined && value !== false,
  );
  const query = new URLSearchParams(kept).toString();
  return `#${[tab, ...path].map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}
// Keep what a person chose in the address without a new entry in the history.
const remember = (tab, path, params) => history.replaceState(null, "", address(tab, path, params));
const link = (tab, path, params, ...text) => h("a", { href: address(tab, path, params) }, text);

async function show() {
  const turn = ++shown;
  const { tab, path, params } = where();
  for (const a of $("tabs").children) a.toggleAttribute("aria-current", a.hash === `#${tab}`);
  step = { back: null, on: null };
  const view = await VIEWS[tab](path, params);
  if (turn !== shown) return;
  hideTip();
  $("main").replaceChildren();
  fill($("main"), {}, [view]);
  document.title = `${TABS[tab]} · ${$("title").textContent} · mh_train report`;
  if (path.length) scrollTo(0, 0);
  document.body.dataset.shown = turn;
}

function theme() {
  const order = ["light dark", "light", "dark"];
  const names = { "light dark": "Theme: system", light: "Theme: light", dark: "Theme: dark" };
  let now = 0;
  $("theme").textContent = names[order[now]];
  $("theme").addEventListener("click", () => {
    now = (now + 1) % order.length;
    document.documentElement.style.colorScheme = order[now];
    $("theme").textContent = names[order[now]];
  });
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT|TEXTAREA/.test(event.target.tagName)) return;
  const tab = Object.keys(TABS)[Number(event.key) - 1];
  const search = document.querySelector("main input[type=search]");
  if (tab) location.hash = `#${tab}`;
  else if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
  } else if (event.key === "[" && step.back) location.hash = step.back;
  else if (event.key === "]" && step.on) location.hash = step.on;
}

async function start() {
  main = await unpack("main");
  $("title").textContent = main.runs.map((run) => run.name).join(" · ");
  $("made").textContent = `made ${main.made} UTC${main.refresh ? `, again every ${main.refresh} s` : ""}`;
  $("tabs").replaceChildren(...Object.entries(TABS).map(([name, text]) => h("a", { href: `#${name}` }, text)));
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    $("main").focus();
  });
  theme();
  addEventListener("hashchange", show);
  addEventListener("keydown", keys);
  const rests = () => document.visibilityState === "visible" && ["overview", "training"].includes(where().tab);
  if (main.refresh) setInterval(() => rests() && location.reload(), main.refresh * 1000);
  await show();
}
