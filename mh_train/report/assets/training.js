// Every metric as a small chart, group by group; the papers' two figures on how memory is used come first.
const GROUPS = {
  reward: "Reward",
  env: "Environment",
  memory: "Memory",
  learn: "Learning",
  time: "Time",
  eval: "Evaluation",
};

function noteOf(name) {
  const star = Object.keys(main.notes).find((key) => key.endsWith("*") && name.startsWith(key.slice(0, -1)));
  return main.notes[name] || main.notes[star] || null;
}
// Success of the episodes that used, or turned down, at least one memory: update -> share, null where there was none.
function givenDecision(index, outcome) {
  const { columns } = index;
  const found = new Map();
  columns.update.forEach((update, i) => {
    if (update === null) return;
    const [won, count] = found.get(update) || [0, 0];
    found.set(update, columns[outcome][i] ? [won + columns.won[i], count + 1] : [won, count]);
  });
  return [...found].sort((a, b) => a[0] - b[0]).map(([update, [won, count]]) => [update, count ? won / count : null]);
}
async function figures(settings) {
  const cards = await Promise.all(
    main.runs.map(async (run, i) => {
      const index = await unpack(`${i}-index`);
      const used = [
        ["retrievals", "var(--s5)"],
        ["accepted", "var(--yes)"],
        ["rejected", "var(--no)"],
      ].map(([name, tint], k) => ({ name, tint, dash: DASHES[k], points: curve(run, `memory/${name}`) }));
      const given = [
        ["accepted", "var(--yes)"],
        ["rejected", "var(--no)"],
      ].map(([name, tint], k) => ({ name: `when ${name}`, tint, dash: DASHES[k], points: givenDecision(index, name) }));
      given.push({ name: "all episodes", tint: "var(--s5)", dash: DASHES[2], points: curve(run, "env/success") });
      const prefix = several() ? `${run.name}: ` : "";
      return [
        card(
          h("h3", {}, `${prefix}memory use per episode`),
          legend(used),
          lineChart({ name: "memory use per episode", series: used, from: 0, height: 210, smooth: settings.smooth }),
        ),
        card(
          h("h3", {}, `${prefix}success given the decision`),
          legend(given),
          lineChart({
            name: "success given the decision",
            series: given,
            percent: true,
            from: 0,
            to: 1,
            height: 210,
            smooth: settings.smooth,
          }),
        ),
      ];
    }),
  );
  return section(
    "How memory is used",
    "Left: memories asked for, accepted and rejected per episode (MemHarness, figure 3). Right: success of episodes with at least one accepted, or rejected, reconstruction (figure 4).",
    h("div", { class: "grid two" }, cards),
  );
}
function metricCard(name, settings, runs) {
  const series = runSeries(name).filter((one) => runs.has(one.name));
  const note = noteOf(name);
  const now = series.map((one) => num(one.points.at(-1)[1])).join(" / ");
  const healthy = note && note[1] && note[1] !== "–" ? ` Healthy: ${note[1]}.` : "";
  return h(
    "div",
    { class: "card metric" },
    h(
      "div",
      { class: "row spread" },
      h("h3", {}, name.slice(name.indexOf("/") + 1)),
      h("span", { class: "now num" }, now),
    ),
    h("p", {}, note ? `${note[0][0].toUpperCase()}${note[0].slice(1)}.${healthy}` : ""),
    lineChart({ name, series, log: settings.log, smooth: settings.smooth }),
  );
}
const moves = (name) => new Set(main.runs.flatMap((run) => pick(run, name))).size > 1;
function metricGroups(settings, runs) {
  const names = [...new Set(main.runs.flatMap((run) => Object.keys(run.metrics.series)))].filter(
    (name) => name.includes(settings.q.trim()) && (!settings.moving || moves(name)),
  );
  const groups = [...new Set([...Object.keys(GROUPS), ...names.map((name) => name.split("/")[0])])];
  const filled = groups
    .map((group) => [group, names.filter((name) => name.split("/")[0] === group)])
    .filter(([, found]) => found.length);
  if (!filled.length)
    return [
      nothing(
        settings.q ? `No metric contains “${settings.q}”.` : "No update is finished yet, so there are no metrics.",
      ),
    ];
  return filled.map(([group, found]) =>
    h(
      "section",
      { id: `group-${group}` },
      h(
        "h2",
        { style: { marginBottom: "12px" } },
        GROUPS[group] || group,
        h("span", { class: "muted small" }, ` ${many(found.length, "metric")}`),
      ),
      h(
        "div",
        { class: "grid" },
        found.map((name) => metricCard(name, settings, runs)),
      ),
    ),
  );
}

VIEWS.training = async (path, params) => {
  const settings = {
    q: params.q || "",
    log: params.log === "1",
    moving: params.moving === "1",
    smooth: Number(params.smooth) || 0,
  };
  const runs = new Set(
    main.runs.map((run) => run.name).filter((name, i) => !(params.off || "").split(",").includes(String(i))),
  );
  const body = h("div", {});
  const draw = async () => {
    const off = main.runs
      .map((run, i) => (runs.has(run.name) ? null : i))
      .filter((i) => i !== null)
      .join(",");
    remember("training", [], {
      q: settings.q,
      log: settings.log ? 1 : "",
      moving: settings.moving ? 1 : "",
      smooth: settings.smooth || "",
      off,
    });
    body.replaceChildren(...(settings.q ? [] : [await figures(settings)]), ...metricGroups(settings, runs));
  };
  const told = h("output", { class: "num" }, settings.smooth);
  const controls = h(
    "div",
    { class: "filters" },
    h("input", {
      type: "search",
      placeholder: "Find a metric",
      "aria-label": "Find a metric",
      value: settings.q,
      oninput: (e) => {
        settings.q = e.target.value;
        draw();
      },
    }),
    field(
      "Smoothing",
      h("input", {
        type: "range",
        min: 0,
        max: 0.95,
        step: 0.05,
        value: settings.smooth,
        oninput: (e) => {
          settings.smooth = Number(e.target.value);
          told.textContent = settings.smooth;
          draw();
        },
      }),
      told,
    ),
    field(
      "Logarithmic",
      h("input", {
        type: "checkbox",
        checked: settings.log,
        onchange: (e) => {
          settings.log = e.target.checked;
          draw();
        },
      }),
    ),
    field(
      "Only what changes",
      h("input", {
        type: "checkbox",
        checked: settings.moving,
        onchange: (e) => {
          settings.moving = e.target.checked;
          draw();
        },
      }),
    ),
    several() &&
      h(
        "div",
        { class: "row" },
        runSeries("reward/mean").map((one) =>
          field(
            h("span", { class: "row" }, legend([one])),
            h("input", {
              type: "checkbox",
              checked: runs.has(one.name),
              "aria-label": `show ${one.name}`,
              onchange: (e) => {
                runs[e.target.checked ? "add" : "delete"](one.name);
                draw();
              },
            }),
          ),
        ),
      ),
  );
  await draw();
  return [controls, body];
};
