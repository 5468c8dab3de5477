// The memories of a run: how many of what, where they lie, which is which, and what became of those that are gone.
const LEFT = { prune: "pruned", archive: "archived", merge: "merged", reject: "not admitted", conflict: "in conflict" };
const recordLink = (run, id) =>
  main.runs[run].bank ? link("bank", [run, id], {}, short(id, 12)) : h("span", { class: "mono" }, short(id, 12));
const bankOf = async (run) => (main.runs[run] && main.runs[run].bank ? unpack(`${run}-bank`) : null);
const stateKinds = ["active", "summary", "provisional", "archived"];
const stateTints = ["var(--s0)", "var(--s2)", "var(--s1)", "var(--s5)"];
const labelTints = ["var(--good)", "var(--watch)", "var(--bad)"];
const typeKinds = ["procedural_hint", "tool_usage", "failure_avoidance"];

function overTime(bank) {
  const of = (group, name) => ({
    name: words(name),
    points: bank.composition.map((one) => [one.update, one[group][name] || 0]),
  });
  const drawn = (title, group, names, stack) => {
    const series = names
      .map((name) => of(group, name))
      .filter((one) => one.points.some(([, y]) => y))
      .map((one, i) => ({ ...one, tint: colour(i) }));
    return card(
      h("h3", {}, title),
      legend(stack ? series.map((one) => ({ ...one, dash: "" })) : series),
      lineChart({ name: title, series, stack, from: 0, height: 200 }),
    );
  };
  return h(
    "div",
    { class: "grid" },
    drawn("Records by state", "states", stateKinds, true),
    drawn("Retrievable records by type", "types", typeKinds, true),
    drawn("What happened per update", "events", ["add", "prune", "archive", "merge", "conflict", "reject"], false),
  );
}
function maps(run, bank) {
  const open = (rows) => (i) => {
    location.hash = address("bank", [run, rows[i].id]);
  };
  const told = (r) => [
    ["state", r.state],
    ["used", `${r.usage.c_use}, ${r.usage.c_succ} won`],
    ["utility", num(r.utility)],
  ];
  const point = (r, x, y, kind) => ({ x, y, kind, title: short(r.content, 160), rows: told(r) });
  const judged = bank.records.filter((r) => r.descriptor);
  const used = bank.records.filter((r) => r.usage.c_use > 0);
  const states = (r) => stateKinds.indexOf(r.state);
  const labels = ["verified_success", "uncertain", "verified_fail"];
  const cards = [];
  if (judged.length) {
    cards.push(
      card(
        h("h3", {}, "Descriptors: reward and confidence of the verifier"),
        scatter({
          name: "descriptors",
          points: judged.map((r) =>
            point(r, r.descriptor.confidence, r.descriptor.reward, labels.indexOf(r.descriptor.label)),
          ),
          kinds: labels,
          tints: labelTints,
          xName: "confidence c",
          yName: "reward R",
          range: [-0.04, 1.04, -0.04, 1.04],
          open: open(judged),
        }),
      ),
    );
  }
  if (used.length) {
    cards.push(
      card(
        h("h3", {}, "Use and utility"),
        !judged.length &&
          h("p", { class: "small muted" }, "No verifier was on in this run, so there are no descriptors to plot."),
        scatter({
          name: "use and utility",
          points: used.map((r) => point(r, Math.log10(r.usage.c_use), r.utility, states(r))),
          kinds: stateKinds,
          tints: stateTints,
          xName: "log₁₀ of uses",
          yName: "utility s",
          open: open(used),
        }),
      ),
    );
  }
  if (bank.records.length > 2) {
    cards.push(
      card(
        h("h3", {}, "Similarity map"),
        h("p", { class: "small muted" }, "The embeddings on their two widest directions: near is alike."),
        scatter({
          name: "similarity map",
          points: bank.records.map((r) => point(r, r.x, r.y, states(r))),
          kinds: stateKinds,
          tints: stateTints,
          xName: "first direction",
          yName: "second",
          axes: false,
          open: open(bank.records),
        }),
      ),
    );
  }
  return h("div", { class: "grid two" }, cards);
}
const COLUMNS = [
  ["state", "state", "", (r) => stateBadge(r.state)],
  ["type", "type", "nowrap", (r) => words(r.type)],
  ["utility", "utility", "r", (r) => num(r.utility)],
  ["used", "used", "r", (r) => r.usage.c_use],
  ["won", "won", "r", (r) => r.usage.c_succ],
  ["accepted", "accepted", "r", (r) => r.usage.accepted],
  ["rejected", "rejected", "r", (r) => r.usage.rejected],
  ["R", "reward", "r", (r) => num(r.descriptor?.reward)],
  ["c", "confidence", "r", (r) => num(r.descriptor?.confidence)],
  ["learnt", "born", "r", (r) => r.provenance[0]?.update ?? "–"],
];
const KEY = {
  used: (r) => r.usage.c_use,
  won: (r) => r.usage.c_succ,
  accepted: (r) => r.usage.accepted,
  rejected: (r) => r.usage.rejected,
  reward: (r) => r.descriptor?.reward ?? -1,
  confidence: (r) => r.descriptor?.confidence ?? -1,
  born: (r) => r.provenance[0]?.update ?? -1,
};
function recordList(run, bank, f) {
  const body = h("div", {});
  const draw = () => {
    remember("bank", [run], { ...f, page: f.page || "", down: f.down ? 1 : "" });
    const q = (f.q || "").toLowerCase();
    const fits = (r) =>
      (!f.state || r.state === f.state) &&
      (!f.type || r.type === f.type) &&
      (!f.task || r.task_type === f.task) &&
      (!q || `${r.id} ${r.title} ${r.content} ${r.situation} ${r.source_state}`.toLowerCase().includes(q));
    const key = KEY[f.sort] || ((r) => r[f.sort]);
    const compare = (a, b) => (a > b) - (a < b);
    const rows = bank.records.filter(fits);
    if (f.sort) rows.sort((a, b) => (f.down ? -1 : 1) * compare(key(a), key(b)) || compare(a.id, b.id));
    const turn = pager(rows.length, PAGE, f, draw);
    const memory = (r) =>
      h("span", { class: "raw", dir: "auto" }, r.title && h("b", {}, `${short(r.title, 80)}: `), short(r.content, 160));
    const columns = [
      ["record", "nowrap mono", (r) => recordLink(run, r.id)],
      ["memory", "text", memory],
      ...COLUMNS.map(([title, name, kind, cell]) => [sorter(title, name, f, draw), kind, cell]),
    ];
    body.replaceChildren(
      rows.length
        ? card(table(columns, rows.slice(f.page * PAGE, (f.page + 1) * PAGE), "Memories"))
        : nothing("No memory fits; loosen a filter."),
      turn,
    );
  };
  const set = (name) => (value) => {
    f[name] = value;
    f.page = 0;
    draw();
  };
  const values = (name, any) => [
    ["", any],
    ...[...new Set(bank.records.map((r) => r[name]))].sort().map((v) => [v, words(v)]),
  ];
  draw();
  return [
    h(
      "div",
      { class: "filters" },
      h("input", {
        type: "search",
        placeholder: "Find in memories",
        "aria-label": "Find in memories",
        value: f.q || "",
        oninput: (e) => set("q")(e.target.value),
      }),
      field("State", choice(values("state", "all states"), f.state || "", set("state"), { name: "state" })),
      field("Type", choice(values("type", "all types"), f.type || "", set("type"), { name: "type" })),
      field("Learnt on", choice(values("task_type", "all task types"), f.task || "", set("task"), { name: "task" })),
    ),
    body,
  ];
}
function gone(run, bank) {
  const events = bank.events.filter((event) => event.kind in LEFT).reverse();
  if (!events.length) return nothing("Nothing was pruned, archived, merged or turned away.");
  const state = { page: 0, kind: "" };
  const known = new Map(bank.records.map((r) => [r.id, r]));
  const body = h("div", {});
  const draw = () => {
    const rows = events.filter((event) => !state.kind || event.kind === state.kind);
    const turn = pager(rows.length, 20, state, draw);
    body.replaceChildren(
      card(
        table(
          [
            ["update", "r", (e) => e.update],
            ["what", "nowrap", (e) => LEFT[e.kind]],
            ["record", "nowrap mono", (e) => (known.has(e.id) ? recordLink(run, e.id) : short(e.id, 12))],
            [
              "why",
              "",
              (e) =>
                h(
                  "span",
                  { class: "raw" },
                  e.reason,
                  e.data.other && [" with ", recordLink(run, e.data.other)],
                  e.data.superseded_by && [" by ", recordLink(run, e.data.superseded_by)],
                ),
            ],
            [
              "memory",
              "text",
              (e) =>
                h("span", { class: "raw", dir: "auto" }, short(known.get(e.id)?.content || e.data.content || "", 140)),
            ],
          ],
          rows.slice(state.page * 20, (state.page + 1) * 20),
          "Records that are gone",
        ),
      ),
      turn,
    );
  };
  const counts = Object.entries(LEFT)
    .map(([kind, name]) => [kind, name, events.filter((event) => event.kind === kind).length])
    .filter(([, , count]) => count);
  draw();
  return [
    h(
      "div",
      { class: "filters" },
      field(
        "What",
        choice(
          [["", `all (${events.length})`], ...counts.map(([kind, name, count]) => [kind, `${name} (${count})`])],
          "",
          (value) => {
            state.kind = value;
            state.page = 0;
            draw();
          },
          { name: "gone" },
        ),
      ),
    ),
    body,
  ];
}

VIEWS.bank = async (path, params) => {
  const run = Number(path[0]) || 0;
  const bank = await bankOf(run);
  const choose =
    several() &&
    h(
      "div",
      { class: "filters" },
      field(
        "Run",
        choice(
          main.runs.map((one, i) => [i, one.name]),
          run,
          (value) => {
            location.hash = address("bank", [value]);
          },
          { name: "run" },
        ),
      ),
    );
  if (!bank) return [choose, nothing(main.runs[run]?.bank_note || "This run has no bank.")];
  if (path[1]) return recordView(run, bank, path[1]);
  const left = bank.left_out
    ? ` ${many(bank.left_out, "record")} of the least use that cannot be retrieved any more are left out of this report.`
    : "";
  const counts = stateKinds
    .map((state) => [state, bank.records.filter((r) => r.state === state).length])
    .filter(([, count]) => count);
  return [
    choose,
    section(
      "Memories",
      `${many(bank.records.length + bank.left_out, "record")}: ${counts.map(([state, count]) => `${count.toLocaleString("en")} ${state}`).join(", ")}.${left}`,
      recordList(run, bank, { ...params, page: Number(params.page) || 0 }),
    ),
    bank.composition.length ? section("Over time", null, overTime(bank)) : null,
    bank.records.length ? section("Maps", "A point opens its record.", maps(run, bank)) : null,
    section(
      "What is gone, and why",
      "Nothing is ever deleted: an archived record stays readable and keeps its reason.",
      gone(run, bank),
    ),
  ].filter(Boolean);
};
