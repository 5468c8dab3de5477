// One record's life: who made it and from what, how it was judged, whom it fought, who used it and how that ended.
function useChart(bank, place) {
  const uses = bank.uses.filter(([i]) => i === place);
  if (!uses.length) return nothing("No trajectory has retrieved it yet.");
  const of = (name, k, tint, dash) => {
    let sum = 0;
    return { name, tint, dash, points: uses.map((use) => [use[1], (sum += use[k])]) };
  };
  const series = [
    of("retrieved by", 2, "var(--s5)", ""),
    of("of these won", 3, "var(--good)", "7 3"),
    of("accepted", 4, "var(--yes)", "2 3"),
    of("rejected", 5, "var(--no)", "9 3 2 3"),
  ];
  return [legend(series), lineChart({ name: "uses so far", series, from: 0, height: 190 })];
}
async function usedIn(run, id) {
  const rows = (await episodesOf(run)).filter((row) => row.asked.some(([, , hits]) => hits.includes(id)));
  if (!rows.length) return nothing("No episode of this report retrieved it.");
  const when = (row) =>
    row.asked
      .filter(([, , hits]) => hits.includes(id))
      .map(([at, outcome]) => [outcomeBadge(outcome), h("span", { class: "muted small" }, ` at step ${at + 1} `)]);
  const shownRows = [...rows].reverse().slice(0, 30);
  return [
    table(
      [
        ["episode", "nowrap mono", (row) => (blockOf(row) ? episodeLink(row, row.id) : row.id)],
        ["from", "nowrap", sourceName],
        ["what became of it", "nowrap", when],
        ["outcome", "", (row) => wonBadge(row.won)],
        ["task", "line small", (row) => h("span", { title: row.task, dir: "auto" }, taskName(row))],
      ],
      shownRows,
      "Episodes that retrieved this record",
    ),
    h(
      "p",
      { class: "small" },
      link(
        "episodes",
        [],
        { run, record: id },
        rows.length > 30 ? `All ${rows.length} episodes` : "Show them as a list",
      ),
    ),
  ];
}
async function origin(run, record) {
  const rows = await episodesOf(run);
  return h(
    "ul",
    {},
    record.provenance.map((from) => {
      const row = rows.find((one) => one.id === from.trajectory);
      return h(
        "li",
        { class: "raw" },
        row && blockOf(row) ? episodeLink(row, from.trajectory) : from.trajectory || "(outside this run)",
        ` · update ${from.update}, step ${from.step + 1}, run ${from.run} · ${from.task}`,
      );
    }),
  );
}
function related(run, bank, record, place) {
  const known = new Map(bank.records.map((r) => [r.id, r]));
  const line = (id, told) =>
    h(
      "li",
      {},
      told,
      " ",
      recordLink(run, id),
      " ",
      known.has(id) && [
        stateBadge(known.get(id).state),
        " ",
        h("span", { class: "raw" }, short(known.get(id).content, 140)),
      ],
    );
  const lists = [
    [
      "Conflicts",
      record.conflict_links.map((id) =>
        line(id, record.lost_to.includes(id) ? "loses to" : "wins over or stands beside"),
      ),
    ],
    ["Summarises", record.covers.map((id) => line(id, ""))],
    ["Replaced by", record.superseded_by ? [line(record.superseded_by, "")] : []],
    [
      "Nearest in meaning",
      (bank.near[place] || []).map(([i, cosine]) =>
        line(bank.records[i].id, h("span", { class: "num muted" }, `cosine ${cosine.toFixed(2)}`)),
      ),
    ],
  ];
  return lists.filter(([, found]) => found.length).map(([title, found]) => [h("h3", {}, title), h("ul", {}, found)]);
}
function lifeTable(bank, record) {
  const events = bank.events.filter((event) => event.id === record.id || event.data.other === record.id);
  const seen = new Set(events.map((event) => `${event.update} ${event.kind}`));
  const all = [
    ...record.timeline
      .filter((one) => !seen.has(`${one.update} ${one.event}`))
      .map((one) => ({ ...one, kind: one.event, data: {} })),
    ...events,
  ].sort((a, b) => a.update - b.update);
  return table(
    [
      ["update", "r", (e) => e.update],
      ["what", "nowrap", (e) => words(e.kind)],
      ["by", "nowrap", (e) => e.actor],
      ["why", "", (e) => h("span", { class: "raw" }, e.reason)],
      [
        "detail",
        "small",
        (e) =>
          h(
            "span",
            { class: "raw" },
            Object.entries(e.data)
              .filter(([name]) => name !== "views")
              .map(([name, value]) => `${words(name)} ${Array.isArray(value) ? value.join(", ") : value}`)
              .join(", "),
          ),
      ],
    ],
    all,
    "Events of this record",
  );
}
function judged(record) {
  const d = record.descriptor;
  if (!d) return nothing("No verifier has judged it.");
  return pairs([
    ["reward R", num(d.reward)],
    ["confidence c", num(d.confidence)],
    [
      "label",
      badge(
        d.label === "verified_success" ? "good" : d.label === "verified_fail" ? "bad" : "watch",
        d.label === "verified_success" ? "✓" : d.label === "verified_fail" ? "✗" : "?",
        words(d.label),
      ),
    ],
    ["verified in update", d.verified_at],
    ["source status", record.source_status],
    ["risk", record.risk],
  ]);
}
// What each view of the verifier said of a record and of those merged into it: label, mean and spread of every
// criterion, evidence that it found.
function viewTable(bank, record) {
  const merged = bank.records.filter((one) => one.superseded_by === record.id).map((one) => one.id);
  const views = bank.events
    .filter((event) => event.kind === "verify" && [record.id, ...merged].includes(event.id))
    .flatMap((event) => (event.data.views || []).map((view) => ({ ...view, update: event.update })));
  if (!views.length) return null;
  const criteria = [...new Set(views.flatMap((view) => Object.keys(view.scores)))];
  const score = (name) => (view) => {
    const [middle, spread] = view.scores[name] || [];
    return middle === undefined ? "–" : `${middle.toFixed(2)} ± ${spread.toFixed(2)}`;
  };
  return [
    h("h3", {}, "What each view said"),
    table(
      [
        ["update", "r", (view) => view.update],
        ["view", "nowrap", (view) => view.view],
        ["label", "nowrap", (view) => words(view.label)],
        ...criteria.map((name) => [words(name), "r", score(name)]),
        ["spans found", "r", (view) => view.quoted],
      ],
      views,
      "Views of the verifier",
    ),
  ];
}
async function recordView(run, bank, id) {
  const place = bank.records.findIndex((r) => r.id === id);
  const record = bank.records[place];
  if (!record)
    return [h("p", {}, link("bank", [run], {}, "← All memories")), nothing(`The record ${id} is not in this report.`)];
  const at = (other) => (other ? address("bank", [run, other.id]) : null);
  step = { back: at(bank.records[place - 1]), on: at(bank.records[place + 1]) };
  const told = (name, text) => text && part(name, raw(text));
  const signature = Object.entries(record.signature || {})
    .filter(([, value]) => value && value.length)
    .map(([name, value]) => [name, [value].flat().join(", ")]);
  return [
    h("p", {}, link("bank", [run], {}, "← All memories")),
    h(
      "section",
      { class: "stack" },
      h(
        "div",
        { class: "row" },
        stateBadge(record.state),
        badge("", "", words(record.type)),
        record.pinned && badge("yes", "◆", "pinned"),
        h("span", { class: "mono muted raw" }, record.id),
      ),
      h("h2", { class: "raw", dir: "auto" }, record.title || short(record.content, 200)),
      h(
        "p",
        { class: "lead num" },
        `Utility ${num(record.utility)}: retrieved by ${many(record.usage.c_use, "trajectory", "trajectories")}, ${record.usage.c_succ} of them won; accepted ${record.usage.accepted} times, rejected ${record.usage.rejected} times.`,
      ),
    ),
    h(
      "div",
      { class: "grid two" },
      card(
        h("h3", {}, "What it says"),
        told("Memory", record.content),
        told("Description", record.description),
        told("When it applies", record.applicability),
        told("Guard", record.guard_condition),
        told("Situation, in the policy's words", record.situation),
        told("Evidence", record.evidence_span),
        told("The state it was learnt in", record.source_state),
        signature.length ? part("Signature", pairs(signature)) : null,
      ),
      card(h("h3", {}, "Uses and outcomes over time"), useChart(bank, place)),
      card(h("h3", {}, "Who made it"), await origin(run, record), h("h3", {}, "How it was judged"), judged(record), viewTable(bank, record)),
      card(
        related(run, bank, record, place).flat().length
          ? related(run, bank, record, place)
          : nothing("No conflicts, merges or neighbours."),
      ),
    ),
    section("Its life", null, card(lifeTable(bank, record))),
    section("Episodes that retrieved it", null, card(await usedIn(run, id))),
  ];
}
