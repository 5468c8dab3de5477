// What ran, on what, how it went: numbers, health in words, the headline table, the learning curve.
const FLAG = { bad: ["✗", "Problem"], watch: ["!", "Look here"], good: ["✓", "Good"] };
const several = () => main.runs.length > 1;
const pick = (run, name) => run.metrics.series[name] || [];
const latest = (run, name, count = 5) => {
  const values = pick(run, name)
    .slice(-count)
    .filter((value) => value !== null);
  return values.length ? mean(values) : null;
};
const curve = (run, name) => pick(run, name).map((value, i) => [run.metrics.updates[i], value]);
const runSeries = (name, band) =>
  main.runs
    .map((run, i) => ({
      name: run.name,
      points: curve(run, name),
      tint: colour(i),
      dash: DASHES[i],
      band: band && band(run),
    }))
    .filter((one) => one.points.length);

function wilson(successes, n) {
  const z = 1.959964;
  const [p, d] = [successes / n, 1 + (z * z) / n];
  const half = (z * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n))) / d;
  const centre = (p + (z * z) / (2 * n)) / d;
  return [Math.max(0, centre - half), Math.min(1, centre + half)];
}
function successBand(run) {
  const counts = pick(run, "env/episodes");
  return curve(run, "env/success").flatMap(([x, y], i) =>
    y === null || !counts[i] ? [] : [[x, ...wilson(y * counts[i], counts[i])]],
  );
}

const tile = (value, label) =>
  h("div", { class: "card tile" }, h("div", { class: "value num" }, value), h("div", { class: "label" }, label));
function tiles(run) {
  const done = run.metrics.updates.length ? run.metrics.updates.at(-1) : 0;
  const planned = run.config.learn && run.config.learn.updates;
  const panels = Object.keys((run.evaluations.trained || {}).results || {});
  const found = [tile(`${done}${planned ? ` / ${planned}` : ""}`, "updates done")];
  if (panels.length) {
    const [mode, cell] = Object.entries(run.evaluations.trained.results[panels.at(-1)])[0];
    found.push(tile(share(cell.success.mean, 0), `success on ${panels.at(-1)}, mode ${words(mode)}`));
  }
  const add = (name, label, tell) => latest(run, name) !== null && found.push(tile(tell(latest(run, name)), label));
  add("env/success", "success in training, last 5 updates", (v) => share(v, 0));
  add("reward/mean", "reward, last 5 updates", num);
  add("memory/retrievals", "memories asked for per episode", num);
  if (pick(run, "memory/active").length)
    found.push(tile(num(pick(run, "memory/active").at(-1)), "memories that can be retrieved"));
  const seconds = pick(run, "time/update_s").reduce((sum, value) => sum + (value || 0), 0);
  if (seconds) found.push(tile(duration(seconds), "spent in updates"));
  return h("div", { class: "grid tiles" }, found);
}
function flagList(run) {
  return h(
    "ul",
    { class: "flags" },
    run.flags.map((flag) => {
      const [sign, word] = FLAG[flag.level];
      return h(
        "li",
        { class: flag.level },
        h("b", {}, h("span", { "aria-hidden": "true" }, `${sign} `), word),
        h("span", {}, flag.text),
        flag.metric && link("training", [], { q: flag.metric }, flag.metric),
      );
    }),
  );
}

// A dot with its 95 % interval on a scale from 0 to 1.
function whisker(value, low, high) {
  const x = (v) => 4 + 112 * v;
  return s(
    "svg",
    { width: 120, height: 18, role: "img", "aria-label": `${num(value)}, 95 % interval ${num(low)} to ${num(high)}` },
    s("line", { x1: 4, x2: 116, y1: 9, y2: 9, stroke: "var(--line)" }),
    [0, 0.5, 1].map((v) => s("line", { x1: x(v), x2: x(v), y1: 5, y2: 13, stroke: "var(--line)" })),
    s("line", { x1: x(low), x2: x(high), y1: 9, y2: 9, stroke: "var(--accent)", "stroke-width": 2.5 }),
    s("circle", { cx: x(value), cy: 9, r: 4.5, fill: "var(--accent)" }),
  );
}
const spread = (cell, digits = 3) =>
  cell ? `${cell.mean.toFixed(digits)}${cell.std === null ? "" : ` ± ${cell.std.toFixed(digits)}`}` : "–";
function headline(run, place) {
  const rows = [];
  for (const [policy, result] of Object.entries(run.evaluations)) {
    for (const [panel, modes] of Object.entries(result.results || {})) {
      rows.push({
        panel,
        policy,
        heading: `${panel} · ${words(policy)} policy · ${many(result.panels[panel].tasks, "task")} · ${many(result.seeds.length, "seed")}`,
      });
      for (const [mode, cell] of Object.entries(modes)) rows.push({ panel, policy, mode, cell });
    }
  }
  rows.sort((a, b) => a.panel.localeCompare(b.panel));
  const mid = (name, digits) => [words(name), "r", ({ cell }) => spread(cell[name], digits)];
  const columns = [
    [
      "mode",
      "nowrap",
      ({ mode, policy, panel }) => link("episodes", [], { run: place, policy, panel, mode }, words(mode)),
    ],
    ["success", "r", ({ cell }) => h("b", {}, spread(cell.success))],
    ["95 % interval", "r", ({ cell }) => cell.success.wilson.map((v) => v.toFixed(3)).join(" – ")],
    ["", "", ({ cell }) => whisker(cell.success.mean, ...cell.success.wilson)],
    ["mean over types", "r", ({ cell }) => spread(cell.macro)],
    mid("steps", 1),
    ["asked", "r", ({ cell }) => spread(cell.retrievals, 2)],
    mid("accepted", 2),
    mid("rejected", 2),
    mid("malformed", 2),
  ];
  return table(columns, rows, `Results of ${run.name}`);
}
function comparisons(run, place) {
  const found = (run.evaluations.trained || {}).comparisons || [];
  const verdict = (one) =>
    one.low > 0
      ? badge("good", "▲", `${words(one.a)} is better`)
      : one.high < 0
        ? badge("bad", "▼", `${words(one.b)} is better`)
        : badge("", "=", "no clear difference");
  const columns = [
    ["panel", "nowrap", (one) => one.panel],
    [
      "comparison",
      "nowrap",
      (one) =>
        link(
          "compare",
          [],
          { a: cellKey(place, "trained", one.panel, one.a), b: cellKey(place, "trained", one.panel, one.b) },
          `${words(one.a)} − ${words(one.b)}`,
        ),
    ],
    ["difference", "r", (one) => h("b", {}, signed(one.difference))],
    ["95 % interval", "r", (one) => `${num(one.low)} to ${num(one.high)}`],
    ["p", "r", (one) => num(one.p_value, 2)],
    ["p (Holm)", "r", (one) => num(one.p_holm, 2)],
    ["effect d", "r", (one) => num(one.effect, 2)],
    ["", "", verdict],
  ];
  return found.length
    ? [
        h("h3", { style: { margin: "20px 0 6px" } }, "Paired over tasks, 10,000 bootstrap resamples"),
        table(columns, found, `Comparisons of ${run.name}`),
      ]
    : null;
}

function lines(value, depth = 0) {
  return Object.entries(value).flatMap(([name, item]) =>
    item && typeof item === "object" && !Array.isArray(item)
      ? [`${"  ".repeat(depth)}${name}:`, ...lines(item, depth + 1)]
      : [`${"  ".repeat(depth)}${name}: ${Array.isArray(item) ? item.join(", ") : item}`],
  );
}
function whatRan(run) {
  const { config: c, software: sw } = run;
  const at = (path) => path.split(".").reduce((value, name) => (value ? value[name] : undefined), c);
  const tell = (path, unit = "") => (at(path) === undefined || at(path) === "" ? null : `${at(path)}${unit}`);
  const facts = pairs([
    ["run", run.name],
    ["folder", run.folder],
    [
      "environment",
      `${tell("env.name") || "–"}, trained on ${tell("env.train_split") || "–"}, at most ${tell("env.horizon") || "–"} steps`,
    ],
    [
      "policy",
      `${tell("model.path") || "–"}${at("model.lora.enabled") ? `, LoRA of rank ${tell("model.lora.r")}` : ""}, engine ${tell("engine.name") || "–"}, prompts ${tell("prompt.preset") || "–"}`,
    ],
    [
      "memory",
      `${tell("memory.use") || "–"}, asked ${tell("memory.trigger") || "–"}, k = ${tell("memory.k") || "–"}, budget ${tell("memory.budget") || "–"}, verifier ${tell("memory.verifier.source") || "–"}`,
    ],
    [
      "learning",
      `${tell("learn.estimator") || "–"}, ${tell("rollout.tasks") || "–"} tasks × ${tell("rollout.group") || "–"} episodes an update, learning rate ${tell("learn.lr") || "–"}`,
    ],
    ["seed", tell("seed")],
    ["machine", [sw.platform, sw.cores && many(sw.cores, "core")].filter(Boolean).join(", ")],
    ["command", sw.command && h("code", { class: "mono" }, sw.command.join(" "))],
    [
      "versions",
      Object.entries(sw.versions || {})
        .map(([name, version]) => `${name} ${version}`)
        .join(" · "),
    ],
    [
      "cold start",
      run.cold_start["sft/rows"] &&
        `${many(run.cold_start["sft/rows"], "row")}, loss ${num(run.cold_start["sft/loss"])}`,
    ],
  ]);
  return card(
    several() && h("h3", { style: { marginBottom: "10px" } }, run.name),
    facts,
    h(
      "details",
      { style: { marginTop: "14px" } },
      h("summary", {}, "All settings"),
      h("pre", { tabindex: "0", class: "raw" }, lines(c).join("\n")),
    ),
  );
}

VIEWS.overview = () => {
  const named = (draw) =>
    main.runs.map((run, i) => [several() && h("h3", { style: { margin: "14px 0 8px" } }, run.name), draw(run, i)]);
  const evaluated = main.runs.some((run) => Object.keys(run.evaluations).length);
  const success = runSeries("env/success", successBand);
  return [
    section("At a glance", null, named(tiles)),
    section("Health", "Read from the curves; each finding leads to its metric.", named(flagList)),
    evaluated
      ? section(
          "Results",
          "Success over fixed tasks, with the 95 % Wilson interval. A mode opens its episodes, a comparison its tasks.",
          named((run, i) =>
            Object.keys(run.evaluations).length
              ? card(headline(run, i), comparisons(run, i))
              : nothing("Not evaluated yet."),
          ),
        )
      : section("Results", null, nothing("Not evaluated yet: mh-train eval fills this table.")),
    section(
      "Learning curve",
      "Means over the episodes of each update; the band is the 95 % interval of success.",
      h(
        "div",
        { class: "grid two" },
        card(
          h("h3", {}, "Success"),
          several() && legend(success),
          lineChart({ name: "success", series: success, percent: true, from: 0, to: 1, height: 220 }),
        ),
        card(
          h("h3", {}, "Reward"),
          several() && legend(success),
          lineChart({ name: "reward", series: runSeries("reward/mean"), from: 0, height: 220 }),
        ),
      ),
    ),
    section("What ran", null, h("div", { class: "stack" }, main.runs.map(whatRan))),
  ];
};
