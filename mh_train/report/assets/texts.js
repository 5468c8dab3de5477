// Two texts compared word by word, and the tokens of a text by how likely they were.

// Words that two texts share, by longest common subsequence; past 400 words only the two texts are shown.
function wordDiff(before, after) {
  const [a, b] = [before.split(/(\s+)/), after.split(/(\s+)/)];
  if (a.length > 800 || b.length > 800) return null;
  const length = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      length[i][j] = a[i] === b[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  const out = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push(a[i++]);
      j++;
    } else if (j >= b.length || (i < a.length && length[i + 1][j] >= length[i][j + 1])) out.push(h("del", {}, a[i++]));
    else out.push(h("ins", {}, b[j++]));
  }
  return out;
}
const diffView = (before, after) =>
  h("div", { class: "raw", dir: "auto" }, wordDiff(before, after) || [h("del", {}, before), "\n", h("ins", {}, after)]);
const overlap = (a, b) => {
  const set = new Set(b.split(/\s+/));
  return a.split(/\s+/).filter((word) => set.has(word)).length;
};

function tokenView(turn, vocabulary) {
  if (!turn.tokens.length) return nothing("No token ids are stored for this turn.");
  const known = turn.logprobs.filter((value) => value !== null);
  const kind = (lp) => (lp === null || lp > -0.3 ? "" : lp > -1.2 ? "p1" : lp > -3 ? "p2" : "p3");
  const one = (id, i) => {
    const lp = turn.logprobs[i] ?? null;
    return h(
      "span",
      {
        class: `tok ${kind(lp)}`,
        title: lp === null ? `id ${id}` : `log-prob ${num(lp)}, p ${num(Math.exp(lp))}, id ${id}`,
      },
      vocabulary[id] ?? `[${id}]`,
      vocabulary[id] === undefined ? " " : "\u200b",
    );
  };
  return h(
    "div",
    {},
    h("div", { class: "tokens" }, turn.tokens.map(one)),
    h(
      "p",
      { class: "small muted" },
      known.length
        ? `${many(known.length, "token")}, mean log-prob ${num(mean(known))}, least likely ${num(Math.min(...known))}. `
        : "",
      "Dotted: p below .74, yellow: below .30, red with a double line: below .05.",
    ),
  );
}
