// Runs, policies and modes side by side on the same tasks, with paired statistics and every task won or lost.
const RESAMPLES = 10000;
const cellKey = (run, policy, panel, mode) => [run, policy, panel, mode].join("/");

// Evaluated cells with their seeds joined: key -> {run, policy, panel, hash, mode, tasks: Map task -> rows}.
async function evaluatedCells() {
  const cells = new Map();
  for (let run = 0; run < main.runs.length; run++) {
    for (const row of await episodesOf(run)) {
      if (row.source.kind !== "eval") continue;
      const { policy, panel, hash, mode } = row.source;
      const key = cellKey(run, policy, panel, mode);
      if (!cells.has(key)) cells.set(key, { key, run, policy, panel, hash, mode, tasks: new Map() });
      const { tasks } = cells.get(key);
      if (!tasks.has(row.task)) tasks.set(row.task, []);
      tasks.get(row.task).push(row);
    }
  }
  return cells;
}
const nameOf = (cell) =>
  [several() && main.runs[cell.run].name, words(cell.policy), words(cell.mode)].filter(Boolean).join(" · ");
const taskMean = (rows, name = "won") => mean(rows.map((row) => row[name] || 0));
const cellMean = (cell, name) => mean([...cell.tasks.values()].map((rows) => taskMean(rows, name)));

// The same test as the evaluation's: tasks drawn with replacement, percentile interval, two-sided p, d of the differences.
function pairedBootstrap(differences) {
  let seed = 0x9e3779b9;
  const random = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const n = differences.length;
  const means = Float64Array.from({ length: RESAMPLES }, () => {
    let sum = 0;
    for (let i = 0; i < n; i++) sum += differences[Math.floor(random() * n)];
    return sum / n;
  }).sort();
  const tail = Math.min(means.filter((m) => m <= 0).length, means.filter((m) => m >= 0).length);
  const centre = mean(differences);
  const deviation = Math.sqrt(differences.reduce((sum, d) => sum + (d - centre) ** 2, 0) / Math.max(n - 1, 1));
  return {
    difference: centre,
    low: means[Math.floor(0.025 * RESAMPLES)],
    high: means[Math.ceil(0.975 * RESAMPLES) - 1],
    p_value: Math.min(1, (2 * (tail + 1)) / (RESAMPLES + 1)),
    effect: deviation > 1e-12 ? centre / deviation : null,
  };
}
function statistics(a, b, tasks) {
  const stored =
    a.run === b.run &&
    a.policy === "trained" &&
    b.policy === "trained" &&
    a.panel === b.panel &&
    (main.runs[a.run].evaluations.trained.comparisons || []).find(
      (one) => one.panel === a.panel && one.a === a.mode && one.b === b.mode,
    );
  return stored
    ? { ...stored, from: "the run's evaluation" }
    : { ...pairedBootstrap(tasks.map((t) => t.a - t.b)), from: "this page" };
}
function verdictOf(a, b, found) {
  const sure =
    found.low > 0 ? `${nameOf(a)} is better` : found.high < 0 ? `${nameOf(b)} is better` : "no clear difference";
  return h(
    "div",
    { class: "grid tiles" },
    tile(signed(found.difference), `difference in success: ${sure}`),
    tile(`${num(found.low)} to ${num(found.high)}`, "95 % interval, 10,000 resamples of tasks"),
    tile(num(found.p_value, 2), `two-sided p, from ${found.from}`),
    found.p_holm !== undefined && tile(num(found.p_holm, 2), "p after Holm's correction"),
    tile(num(found.effect, 2), "effect size d of the paired differences"),
  );
}
function sideBySide(cells) {
  const of = (name, digits = 2) => [words(name), "r", (cell) => cellMean(cell, name).toFixed(digits)];
  const interval = (cell) => wilson(cellMean(cell, "won") * cell.tasks.size, cell.tasks.size);
  return table(
    [
      ["policy and mode", "nowrap", nameOf],
      ["success", "r", (cell) => h("b", {}, cellMean(cell, "won").toFixed(3))],
      [
        "95 % interval",
        "r",
        (cell) =>
          interval(cell)
            .map((v) => v.toFixed(3))
            .join(" – "),
      ],
      ["", "", (cell) => whisker(cellMean(cell, "won"), ...interval(cell))],
      of("steps", 1),
      of("accepted"),
      of("rejected"),
      of("replayed"),
      of("malformed"),
      ["tasks", "r", (cell) => cell.tasks.size],
    ],
    cells,
    "All policies and modes on this panel",
  );
}
function byType(tasks) {
  const types = [...new Set(tasks.map((t) => t.type))].sort();
  const of = (type) => tasks.filter((t) => t.type === type);
  return table(
    [
      ["type", "nowrap", (type) => words(type)],
      ["tasks", "r", (type) => of(type).length],
      ["A", "r", (type) => mean(of(type).map((t) => t.a)).toFixed(3)],
      ["B", "r", (type) => mean(of(type).map((t) => t.b)).toFixed(3)],
      ["difference", "r", (type) => h("b", {}, signed(mean(of(type).map((t) => t.a - t.b))))],
    ],
    types,
    "Success by task type",
  );
}
const KINDS = {
  "": "all tasks",
  a: "A does better",
  b: "B does better",
  both: "both succeed",
  neither: "neither succeeds",
};
const kindOf = (t) => (t.a > t.b ? "a" : t.b > t.a ? "b" : t.a > 0 ? "both" : "neither");
function taskList(a, b, tasks, f, draw) {
  const count = (kind) => tasks.filter((t) => !kind || kindOf(t) === kind).length;
  const rows = tasks.filter((t) => !f.kind || kindOf(t) === f.kind);
  const marks = (found) => found.map((row) => [episodeLink(row, row.won ? "✓ success" : "✗ failure"), " "]);
  const set = (value) => {
    f.kind = value;
    f.page = 0;
    draw();
  };
  const turn = pager(rows.length, PAGE, f, draw);
  return [
    h(
      "div",
      { class: "filters" },
      field(
        "Show",
        choice(
          Object.entries(KINDS).map(([kind, name]) => [kind, `${name} (${count(kind)})`]),
          f.kind || "",
          set,
          { name: "kind" },
        ),
      ),
    ),
    card(
      table(
        [
          ["task", "line small", (t) => h("span", { title: t.task, dir: "auto" }, taskName(t))],
          ["type", "nowrap", (t) => words(t.type)],
          ["A", "nowrap", (t) => marks(t.rowsA)],
          ["B", "nowrap", (t) => marks(t.rowsB)],
          ["", "nowrap", (t) => link("compare", [a.key, b.key, t.task], {}, "both side by side")],
        ],
        rows.slice(f.page * PAGE, (f.page + 1) * PAGE),
        "Tasks",
      ),
    ),
    turn,
  ];
}
const sharedTasks = (a, b) =>
  [...a.tasks]
    .filter(([task]) => b.tasks.has(task))
    .map(([task, rowsA]) => {
      const rowsB = b.tasks.get(task);
      return { task, type: rowsA[0].type, rowsA, rowsB, a: taskMean(rowsA), b: taskMean(rowsB) };
    });

async function pairView(cells, [keyA, keyB, task]) {
  const rows = [cells.get(keyA)?.tasks.get(task)?.[0], cells.get(keyB)?.tasks.get(task)?.[0]];
  if (!rows[0] || !rows[1]) return nothing("This pair of episodes is not in this report.");
  const bodies = await Promise.all(rows.map(episodeBody));
  const back = link("compare", [], { a: keyA, b: keyB }, "← Back to the comparison");
  return [
    h("p", {}, back),
    h(
      "div",
      { class: "pair" },
      bodies.map((body, i) =>
        h(
          "section",
          {},
          h("h3", { style: { marginBottom: "8px" } }, `${"AB"[i]}: ${nameOf(cells.get([keyA, keyB][i]))}`),
          card(body),
        ),
      ),
    ),
  ];
}
VIEWS.compare = async (path, params) => {
  const cells = await evaluatedCells();
  if (!cells.size) return nothing("Nothing to compare yet: mh-train eval plays fixed tasks in several modes.");
  if (path.length === 3) return pairView(cells, path);
  const all = [...cells.values()];
  const f = { ...params, page: Number(params.page) || 0 };
  const first = all.filter((cell) => cell.panel === all.at(-1).panel)[0];
  const body = h("div", {});
  const picker = h("div", { class: "filters" });
  const draw = () => {
    const a = cells.get(f.a) || first;
    const rivals = all.filter((cell) => cell.hash === a.hash && cell !== a);
    const twin = rivals.find((cell) => cell.run !== a.run && cell.policy === a.policy && cell.mode === a.mode);
    const b = rivals.find((cell) => cell.key === f.b) || twin || rivals[0];
    const options = (list) => list.map((cell) => [cell.key, `${cell.panel} · ${nameOf(cell)}`]);
    const set = (name) => (value) => {
      f[name] = value;
      f.page = 0;
      draw();
    };
    picker.replaceChildren(
      field("A", choice(options(all), a.key, set("a"), { name: "a" })),
      ...(b ? [field("B", choice(options(rivals), b.key, set("b"), { name: "b" }))] : []),
    );
    remember("compare", [], { a: a.key, b: b?.key, kind: f.kind, page: f.page || "" });
    const tasks = b ? sharedTasks(a, b) : [];
    const pair = b && [
      section(
        "A against B",
        `${many(tasks.length, "task")}; A is ${nameOf(a)}, B is ${nameOf(b)}. Seeds are averaged within a task first.`,
        verdictOf(a, b, statistics(a, b, tasks)),
      ),
      section("By task type", null, card(byType(tasks))),
    ];
    const list = b && section("Task by task", "Each mark opens its episode.", taskList(a, b, tasks, f, draw));
    body.replaceChildren();
    fill(body, {}, [
      pair || nothing("Only one policy and mode was evaluated on this panel."),
      section(`Everything on ${a.panel}`, null, card(sideBySide([a, ...rivals]))),
      list,
    ]);
  };
  draw();
  return [picker, body];
};
