// All episodes of all runs as one list that can be filtered; the index is columns, rows are made when needed.
const PAGE = 50;
const rowsOf = new Map();

async function episodesOf(run) {
  if (!rowsOf.has(run)) rowsOf.set(run, readRows(run));
  return rowsOf.get(run);
}
async function readRows(run) {
  const { columns, names, asked, records } = await unpack(`${run}-index`);
  const { sources } = main.runs[run];
  let [source, left] = [0, sources[0].count];
  return columns.id.map((id, i) => {
    while (left === 0) left = sources[++source].count;
    left -= 1;
    const row = Object.fromEntries(
      Object.entries(columns).map(([name, values]) => [name, name in names ? names[name][values[i]] : values[i]]),
    );
    return {
      ...row,
      run,
      i,
      source: sources[source],
      asked: asked[i].map(([at, outcome, hits]) => [at, outcome, hits.map((hit) => records[hit])]),
    };
  });
}
const sourceName = (row) =>
  row.source.kind === "train"
    ? `update ${row.update}`
    : `${words(row.source.policy)}, ${words(row.source.mode)}, seed ${row.source.seed}`;
const blockOf = (row) =>
  row.source.kind === "train" ? main.runs[row.run].stories.blocks[row.update] : row.source.block;
const episodeLink = (row, ...text) => link("episodes", [row.run, row.id], {}, ...text);

const LENGTHS = { "": "any length", short: "up to 5 steps", middle: "6 to 15 steps", long: "more than 15 steps" };
const LENGTH = { short: (n) => n <= 5, middle: (n) => n > 5 && n <= 15, long: (n) => n > 15 };
const MEMORY = {
  "": "any memory use",
  asked: "asked memory",
  never: "never asked",
  accepted: "accepted a memory",
  rejected: "rejected a memory",
  empty: "found nothing",
  replayed: "replayed records",
};
function keeps(row, f) {
  const found = row.accepted + row.rejected + row.empty + row.replayed;
  return (
    (!f.split || row.split === f.split) &&
    (!f.type || row.type === f.type) &&
    (!f.outcome || row.won === Number(f.outcome === "won")) &&
    (!f.length || LENGTH[f.length](row.steps)) &&
    (!f.memory || (f.memory === "asked" ? found > 0 : f.memory === "never" ? found === 0 : row[f.memory] > 0)) &&
    (!f.update || row.update === Number(f.update)) &&
    (!f.policy || row.source.policy === f.policy) &&
    (!f.panel || row.source.panel === f.panel) &&
    (!f.mode || row.source.mode === f.mode) &&
    (!f.record || row.asked.some(([, , hits]) => hits.includes(f.record))) &&
    (!f.whole || blockOf(row)) &&
    (!f.q || `${row.id} ${row.task} ${row.type}`.toLowerCase().includes(f.q.toLowerCase()))
  );
}
function order(rows, f) {
  if (!f.sort) return rows;
  const sign = f.down ? -1 : 1;
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : (a ?? -Infinity) - (b ?? -Infinity));
  return [...rows].sort((a, b) => sign * compare(a[f.sort], b[f.sort]) || a.i - b.i);
}
function episodeTable(rows, f, redraw) {
  const by = (title, key) => sorter(title, key, f, redraw);
  return table(
    [
      [
        "episode",
        "nowrap mono",
        (row) =>
          blockOf(row) ? episodeLink(row, row.id) : h("span", { title: "only its numbers are in this report" }, row.id),
      ],
      [by("from", "update"), "nowrap", sourceName],
      ["outcome", "", (row) => wonBadge(row.won)],
      [by("reward", "reward"), "r", (row) => num(row.reward)],
      [by("advantage", "advantage"), "r", (row) => signed(row.advantage)],
      [by("steps", "steps"), "r", (row) => row.steps],
      [
        "memory",
        "nowrap",
        (row) =>
          Object.keys(OUTCOME)
            .filter((name) => row[name])
            .map((name) => badge(OUTCOME[name][0], OUTCOME[name][1], `${row[name]} ${OUTCOME[name][2]}`)),
      ],
      [by("lost steps", "malformed"), "r", (row) => row.malformed || ""],
      [by("type", "type"), "nowrap", (row) => words(row.type)],
      ["task", "line small", (row) => h("span", { title: row.task, dir: "auto" }, taskName(row))],
    ],
    rows,
    "Episodes",
  );
}
function samplingRule(run) {
  const { blocks, updates, tasks } = run.stories;
  const held = Object.keys(blocks).length;
  const most = Math.max(0, ...run.sources.filter(({ kind }) => kind === "eval").map(({ count }) => count));
  const trained = !updates
    ? `${run.name} holds no training episodes yet.`
    : held === updates
      ? `Every training episode of ${run.name} is here in full.`
      : `${run.name}: every episode is in this list; the full text is here for ${held} of ${updates} updates (the last, the first, then evenly between, whole groups, as many as fit the file's size).`;
  if (!most) return trained;
  if (!tasks) return `${trained} Evaluated episodes are here in short.`;
  return `${trained} Evaluated episodes are here in full${tasks < most ? ` for the first ${many(tasks, "task")} of each panel, the others in short` : ""}.`;
}

VIEWS.episodes = async (path, params) => {
  if (path.length > 1) return episodeView(Number(path[0]), path[1]);
  const f = { sort: "update", down: 1, ...params, page: Number(params.page) || 0 };
  const all = (await Promise.all(main.runs.map((run, i) => episodesOf(i)))).flat();
  const body = h("div", {});
  const draw = () => {
    remember("episodes", [], { ...f, page: f.page || "", down: f.down ? 1 : "" });
    const rows = order(
      all.filter((row) => (!f.run || row.run === Number(f.run)) && keeps(row, f)),
      f,
    );
    const won = rows.filter((row) => row.won).length;
    const told = rows.length
      ? `${many(rows.length, "episode")}, ${share(won / rows.length)} successful`
      : "No episode fits; loosen a filter.";
    const turn = pager(rows.length, PAGE, f, draw);
    body.replaceChildren(
      h("p", { class: "lead", role: "status" }, told),
      ...(rows.length ? [card(episodeTable(rows.slice(f.page * PAGE, (f.page + 1) * PAGE), f, draw)), turn] : []),
    );
  };
  const set = (name) => (value) => {
    f[name] = value;
    f.page = 0;
    draw();
  };
  const values = (of, any) => [
    ["", any],
    ...[...new Set(all.map(of))]
      .filter((v) => v !== undefined && v !== null && v !== "")
      .sort((a, b) => (a > b) - (a < b))
      .map((v) => [v, words(String(v))]),
  ];
  const pickers = [
    several() && ["Run", "run", [["", "all runs"], ...main.runs.map((run, i) => [i, run.name])]],
    ["Split", "split", values((row) => row.split, "all splits")],
    ["Type", "type", values((row) => row.type, "all types")],
    [
      "Outcome",
      "outcome",
      [
        ["", "any"],
        ["won", "success"],
        ["lost", "failure"],
      ],
    ],
    ["Length", "length", Object.entries(LENGTHS)],
    ["Memory", "memory", Object.entries(MEMORY)],
    ["Update", "update", values((row) => row.update, "all updates")],
    ["Mode", "mode", values((row) => row.source.mode, "all modes")],
    ["Policy", "policy", values((row) => row.source.policy, "all policies")],
  ].filter(Boolean);
  const controls = h(
    "div",
    { class: "filters" },
    h("input", {
      type: "search",
      placeholder: "Task, type or id",
      "aria-label": "Find episodes by task, type or id",
      value: f.q || "",
      oninput: (e) => set("q")(e.target.value),
    }),
    pickers.map(([label, name, options]) => field(label, choice(options, f[name] || "", set(name), { name }))),
    field(
      "In full",
      h("input", { type: "checkbox", checked: f.whole, onchange: (e) => set("whole")(e.target.checked ? 1 : "") }),
    ),
    h(
      "button",
      {
        type: "button",
        onclick: () => {
          location.hash = "#episodes";
          if (location.hash === "#episodes") show();
        },
      },
      "Clear",
    ),
  );
  draw();
  return [
    controls,
    f.record && h("p", { class: "lead" }, "Episodes that retrieved ", recordLink(Number(f.run) || 0, f.record), "."),
    body,
    h("p", { class: "small muted" }, main.runs.map(samplingRule).join(" ")),
  ];
};
