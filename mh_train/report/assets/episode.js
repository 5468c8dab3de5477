// One episode as a timeline: what was seen, thought, asked, remembered, rewritten and done, and what it earned.
const QUERY = /<retrieve_memory>([\s\S]*?)<\/retrieve_memory>/;
const THINK = /<think>([\s\S]*?)<\/think>/;

function termBar(terms) {
  const parts = Object.entries(terms);
  const total = parts.reduce((sum, [, value]) => sum + Math.abs(value), 0) || 1;
  return h(
    "div",
    { class: "terms" },
    h(
      "span",
      { class: "termbar", "aria-hidden": "true" },
      parts.map(([, value], i) =>
        h("span", { style: { width: `${(100 * Math.abs(value)) / total}%`, background: colour(i) } }),
      ),
    ),
    parts.map(([name, value]) => h("span", { class: "num" }, `${name} ${signed(value)}`)),
  );
}
function hitView(run, hit, here, text) {
  return h(
    "div",
    { class: "hit" },
    h(
      "div",
      { class: "row" },
      hit.role !== "positive" && badge("watch", "!", hit.role),
      h("b", { class: "num small" }, num(hit.score)),
      recordLink(run, hit.id),
      termBar(hit.terms),
    ),
    hit.title && h("h4", {}, hit.title),
    raw(text(hit.memory)),
    h(
      "details",
      {},
      h("summary", {}, "Where it was learnt, against the state here"),
      h("p", { class: "small muted" }, "Struck out: only in the source state. Underlined: only here."),
      diffView(text(hit.source), here),
    ),
  );
}
function recallView(run, asked, here, text) {
  const best = asked.hits.reduce(
    (a, b) => (a && overlap(text(a.memory), asked.guidance) >= overlap(text(b.memory), asked.guidance) ? a : b),
    null,
  );
  return h(
    "div",
    { class: `recall ${asked.outcome}` },
    h(
      "div",
      { class: "row" },
      outcomeBadge(asked.outcome),
      h("span", {}, "asked: "),
      h("b", { class: "raw" }, asked.query),
    ),
    asked.hits.map((hit) => hitView(run, hit, here, text)),
    asked.guidance && part("Reconstruction", h("b", { class: "raw", dir: "auto" }, asked.guidance)),
    asked.guidance &&
      best &&
      part(`Against the memory nearest to it (${short(best.id, 12)})`, diffView(text(best.memory), asked.guidance)),
    asked.outcome === "rejected" && h("p", { class: "small muted" }, "The policy found that nothing here applies."),
  );
}
function turnView(turn, vocabulary) {
  const query = turn.text.match(QUERY);
  const think = turn.text.match(THINK);
  const marks = [
    !turn.formed && badge("bad", "✗", "not well formed"),
    turn.finish && turn.finish !== "stop" && badge("watch", "!", `ended by ${turn.finish}`),
    !turn.trained && badge("", "–", "not trained on"),
  ];
  return h(
    "div",
    { class: "part" },
    think && part("Thought", raw(think[1].trim(), "think")),
    query && part("Asks memory", raw(query[1].trim())),
    h("div", { class: "row" }, marks),
    h(
      "details",
      {},
      h("summary", {}, `${turn.kind} turn: text and token log-probs`),
      h(
        "p",
        { class: "small muted" },
        `${turn.prompt ? `${many(turn.prompt, "prompt token")}, ` : ""}${many(turn.tokens.length, "completion token")}`,
      ),
      raw(turn.text, "mono"),
      tokenView(turn, vocabulary),
    ),
  );
}
function stepView(run, story, page, number) {
  const text = (i) => page.strings[i];
  const step = story.steps[number];
  const here = text(step.seen);
  const mine = story.turns.filter((turn) => turn.step === number);
  const asked = story.asked.filter((one) => one.step === number);
  const told = [];
  let recalled = 0;
  for (const turn of mine) {
    if (turn.kind !== "reconstruct") told.push(turnView(turn, page.vocabulary));
    if (turn.kind === "act" && QUERY.test(turn.text) && recalled < asked.length)
      told.push(recallView(run, asked[recalled++], here, text));
    if (turn.kind === "reconstruct") told.push(turnView(turn, page.vocabulary));
  }
  for (; recalled < asked.length; recalled++) told.unshift(recallView(run, asked[recalled], here, text));
  const may = text(step.may);
  return h(
    "li",
    {},
    h("div", { class: "stepno", "aria-label": `step ${number + 1}` }, number + 1),
    h(
      "div",
      {},
      part("Sees", raw(here)),
      may &&
        h(
          "details",
          { class: "part" },
          h("summary", {}, many(may.split("\n").length, "possible action")),
          raw(may.split("\n").join(" · "), "small"),
        ),
      told,
      part(
        "Does",
        h(
          "div",
          { class: "row" },
          h("span", { class: "action raw" }, step.action || "(nothing readable)"),
          step.malformed && badge("bad", "✗", "no readable action"),
          step.inadmissible && badge("watch", "!", "not admitted"),
        ),
      ),
    ),
  );
}
function evaluatedTimeline(run, story) {
  return [
    h("p", { class: "small muted" }, "Only actions, queries and reconstructions of this episode are in this report."),
    story.dropped && badge("bad", "✗", "the environment failed for good; counted as a failure"),
    h(
      "ol",
      { class: "timeline" },
      story.actions.map((action, i) =>
        h(
          "li",
          {},
          h("div", { class: "stepno" }, i + 1),
          h(
            "div",
            {},
            story.asked
              .filter((one) => one.step === i)
              .map((one) =>
                h(
                  "div",
                  { class: `recall ${one.outcome}` },
                  h("div", { class: "row" }, outcomeBadge(one.outcome), "asked: ", h("b", { class: "raw" }, one.query)),
                  part(
                    "Records",
                    h(
                      "div",
                      { class: "row" },
                      one.records.map((id) => recordLink(run, id)),
                    ),
                  ),
                  one.guidance && part("Reconstruction", raw(one.guidance)),
                ),
              ),
            part("Does", h("span", { class: "action raw" }, action || "(nothing readable)")),
          ),
        ),
      ),
    ),
  ];
}
function earned(row, story) {
  const parts = Object.entries((story && story.parts) || {});
  return h(
    "div",
    { class: "row" },
    wonBadge(row.won),
    h("b", { class: "num" }, `reward ${num(row.reward)}`),
    row.advantage !== null && h("span", { class: "num" }, `advantage ${signed(row.advantage)}`),
    parts.map(([name, value]) => badge("", "", `${name} ${num(value)}`)),
    row.truncated ? badge("watch", "!", "ended by the horizon") : null,
    h("span", { class: "muted small" }, `${many(row.steps, "step")}, ${many(row.tokens, "token")}`),
  );
}
const lost = (row) =>
  nothing(
    row.source.kind === "train"
      ? `The full text of update ${row.update} did not fit this report; it is in trajectories/update-${String(row.update).padStart(5, "0")}.jsonl of the run folder. A larger --megabytes brings it in.`
      : "This evaluation's episodes are not in this report.",
  );

async function episodeBody(row) {
  const block = blockOf(row);
  const page = block && (await unpack(block));
  const story = page && page.episodes[row.id];
  const timeline = !story
    ? lost(row)
    : story.actions
      ? evaluatedTimeline(row.run, story)
      : [
          h(
            "ol",
            { class: "timeline" },
            story.steps.map((step, i) => stepView(row.run, story, page, i)),
          ),
          part("In the end", raw(page.strings[story.final])),
          story.extra && part("Beside", raw(story.extra, "mono small")),
        ];
  const goal = story && story.goal ? story.goal : row.task;
  return h(
    "div",
    { class: "stack" },
    h("h2", { class: "raw", dir: "auto" }, short(goal, 400)),
    h(
      "p",
      { class: "muted small raw" },
      `${main.runs[row.run].name} · ${sourceName(row)} · ${row.split} · ${words(row.type)} · ${row.task}`,
    ),
    earned(row, story),
    h("div", {}, timeline),
  );
}
async function episodeView(run, id) {
  const rows = main.runs[run] ? await episodesOf(run) : [];
  const row = rows.find((one) => one.id === id);
  if (!row) return nothing(`There is no episode ${id} in this report.`);
  const same = (other) =>
    row.source.kind === "train"
      ? other.update === row.update && other.group === row.group
      : other.task === row.task && other.source.kind === "eval";
  const siblings = rows.filter(same);
  const place = siblings.indexOf(row);
  const at = (other) => (other ? address("episodes", [run, other.id]) : null);
  step = { back: at(siblings[place - 1]), on: at(siblings[place + 1]) };
  const told = (other) =>
    row.source.kind === "train"
      ? `#${other.episode} · ${num(other.reward)} · adv ${signed(other.advantage)}`
      : `${words(other.source.policy)} · ${words(other.source.mode)} · s${other.source.seed}`;
  return [
    h(
      "p",
      {},
      link("episodes", [], {}, "← All episodes"),
      row.source.kind === "train" && [
        " · ",
        link("episodes", [], { run, update: row.update }, `all of update ${row.update}`),
      ],
    ),
    h(
      "section",
      {},
      h(
        "h3",
        { style: { margin: "0 0 8px" } },
        row.source.kind === "train" ? "Its group" : "The same task in other modes",
      ),
      h(
        "ul",
        { class: "siblings" },
        siblings.map((other) =>
          h(
            "li",
            {},
            h(
              "a",
              { href: at(other), "aria-current": other === row ? "true" : null },
              other.won ? "✓ " : "✗ ",
              told(other),
            ),
          ),
        ),
      ),
    ),
    card(await episodeBody(row)),
  ];
}
