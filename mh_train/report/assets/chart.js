// Line charts as plain SVG: smoothing, logarithmic scale, bands, stacks, tooltips by pointer and by keyboard.
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "1 4", "12 4"];
const colour = (i) => `var(--s${i % 6})`;
const PAD = { left: 46, right: 8, top: 8, bottom: 22 };
const resized = new ResizeObserver((entries) => entries.forEach(({ target }) => target.draw()));

// A place for a chart that is drawn again when its width changes.
function chartBox(drawn) {
  const box = h("div", { class: "chart" });
  let width = 0;
  box.draw = () => {
    if (box.clientWidth && box.clientWidth !== width) {
      width = box.clientWidth;
      box.replaceChildren(drawn(width));
    }
  };
  resized.observe(box);
  return box;
}
// spec: {name, series: [{name, points: [[x, y]], tint, dash, band: [[x, low, high]]}], log, smooth, stack, percent, height, from}
function lineChart(spec) {
  return chartBox((width) => drawLines(spec, width));
}
function legend(series) {
  const item = (one, i) =>
    h(
      "li",
      {},
      s(
        "svg",
        { "aria-hidden": "true" },
        s("line", {
          x1: 0,
          x2: 22,
          y1: 5,
          y2: 5,
          stroke: tintOf(one, i),
          "stroke-width": 2.5,
          "stroke-dasharray": dashOf(one, i),
        }),
      ),
      one.name,
    );
  return h("ul", { class: "legend" }, series.map(item));
}
const tintOf = (one, i) => one.tint || colour(i);
const dashOf = (one, i) => (one.dash === undefined ? DASHES[i % DASHES.length] : one.dash);

// Exponential moving average with the weight of the missing past divided out; gaps stay gaps.
function smoothed(points, weight) {
  if (!weight) return points;
  let [sum, norm] = [0, 0];
  return points.map(([x, y]) => {
    if (y === null) return [x, null];
    sum = weight * sum + (1 - weight) * y;
    norm = weight * norm + (1 - weight);
    return [x, sum / norm];
  });
}
function stacked(series) {
  const below = new Map();
  return series.map((one) => ({
    ...one,
    band: one.points.map(([x, y]) => {
      const low = below.get(x) || 0;
      below.set(x, low + (y || 0));
      return [x, low, low + (y || 0)];
    }),
    points: one.points.map(([x]) => [x, below.get(x)]),
    told: one.points,
    dash: "",
  }));
}
function ticks(low, high, count) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const size = [1, 2, 2.5, 5, 10].map((k) => k * power).find((k) => span / k <= count) || 10 * power;
  const found = [];
  for (let value = Math.ceil(low / size - 1e-9) * size; value <= high + size * 1e-9; value += size)
    found.push(Number(value.toPrecision(12)));
  return found;
}
function scaleOf(values, spec, size) {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (spec.log) {
    [low, high] = [Math.log10(low), Math.log10(high)];
    if (high - low < 0.3) [low, high] = [low - 0.2, high + 0.2];
    const marks = ticks(low, high, 4).map((t) => 10 ** t);
    return { at: (v) => size * (1 - (Math.log10(v) - low) / (high - low)), marks };
  }
  if (spec.from !== undefined) low = Math.min(low, spec.from);
  if (spec.to !== undefined) high = Math.max(high, spec.to);
  if (high - low < 1e-12) [low, high] = [low - Math.abs(low || 1) * 0.1, high + Math.abs(high || 1) * 0.1];
  else if (spec.from === undefined) [low, high] = [low - (high - low) * 0.06, high + (high - low) * 0.06];
  return { at: (v) => size * (1 - (v - low) / (high - low)), marks: ticks(low, high, 4) };
}
function pathOf(points, x, y) {
  let [text, pen] = ["", false];
  for (const [px, py] of points) {
    if (py !== null) text += `${pen ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`;
    pen = py !== null;
  }
  return text;
}

function drawLines(spec, width) {
  const height = spec.height || 150;
  const [w, t] = [width - PAD.left - PAD.right, height - PAD.top - PAD.bottom];
  const usable = (y) => (y === null || (spec.log && y <= 0) ? null : y);
  const given = spec.stack ? stacked(spec.series) : spec.series;
  const series = given.map((one) => ({ ...one, points: one.points.map(([x, y]) => [x, usable(y)]) }));
  const lines = series.map((one) => ({ ...one, raw: one.points, points: smoothed(one.points, spec.smooth) }));
  const values = series
    .flatMap((one) => [
      ...one.points.map((p) => p[1]),
      ...(spec.log ? [] : (one.band || []).flatMap((b) => [b[1], b[2]])),
    ])
    .filter((y) => y !== null);
  if (!values.length)
    return h("p", { class: "small muted" }, spec.log ? "No values above 0 for a logarithmic scale." : "No values yet.");
  const xs = [...new Set(series.flatMap((one) => one.points.map((p) => p[0])))].sort((a, b) => a - b);
  const x = (v) => (xs.length > 1 ? (w * (v - xs[0])) / (xs.at(-1) - xs[0]) : w / 2);
  const { at: y, marks } = scaleOf(values, spec, t);
  const tell = spec.percent ? (v) => share(v, 0) : (v) => num(v);
  const plot = s("g", { transform: `translate(${PAD.left} ${PAD.top})` });
  for (const mark of marks) {
    plot.append(
      s("line", { x1: 0, x2: w, y1: y(mark), y2: y(mark), stroke: "var(--grid)" }),
      s("text", { x: -7, y: y(mark) + 4, "text-anchor": "end" }, tell(mark)),
    );
  }
  const across = ticks(xs[0], xs.at(-1), Math.min(6, Math.max(2, w / 70))).filter(Number.isInteger);
  for (const mark of across) plot.append(s("text", { x: x(mark), y: t + 17, "text-anchor": "middle" }, mark));
  lines.forEach((one, i) => {
    if (one.band && !spec.log) {
      const [up, down] = [
        pathOf(
          one.band.map((b) => [b[0], b[2]]),
          x,
          y,
        ),
        pathOf(
          [...one.band].reverse().map((b) => [b[0], b[1]]),
          x,
          y,
        ),
      ];
      plot.append(
        s("path", { d: `${up}${down.replace("M", "L")}Z`, fill: tintOf(one, i), opacity: spec.stack ? 0.45 : 0.14 }),
      );
    }
    const line = { fill: "none", stroke: tintOf(one, i), "stroke-linejoin": "round" };
    if (spec.smooth) plot.append(s("path", { ...line, d: pathOf(one.raw, x, y), opacity: 0.28 }));
    plot.append(
      s("path", { ...line, d: pathOf(one.points, x, y), "stroke-width": 2, "stroke-dasharray": dashOf(one, i) }),
    );
    one.points.forEach(([px, py], k) => {
      const alone = (one.points[k - 1]?.[1] ?? null) === null && (one.points[k + 1]?.[1] ?? null) === null;
      if (py !== null && (alone || xs.length < 3))
        plot.append(s("circle", { cx: x(px), cy: y(py), r: 3, fill: tintOf(one, i) }));
    });
  });
  const cursor = s("line", { y1: 0, y2: t, stroke: "var(--muted)", "stroke-dasharray": "3 3", visibility: "hidden" });
  plot.append(cursor);
  const lasts = lines.map((one) => `${one.name} ${tell((one.told || one.points).at(-1)?.[1])}`).join(", ");
  const svg = s(
    "svg",
    {
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      tabindex: "0",
      "aria-label": `${spec.name}, ${xs.length} points, last: ${lasts}. Arrow keys read values.`,
    },
    plot,
  );
  const read = (place) => {
    const at = xs[place];
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
    cursor.setAttribute("visibility", "visible");
    const rows = lines.map((one, i) => [
      one.name,
      tell((one.told || one.raw).find((p) => p[0] === at)?.[1] ?? null),
      tintOf(one, i),
    ]);
    const box = svg.getBoundingClientRect();
    showTip(`${spec.across || "update"} ${at}`, rows, box.left + PAD.left + x(at), box.top);
  };
  follow(
    svg,
    xs.length,
    (px) => nearest(xs.map(x), px - PAD.left),
    read,
    () => {
      cursor.setAttribute("visibility", "hidden");
      hideTip();
    },
  );
  return svg;
}
function nearest(places, at) {
  let best = 0;
  places.forEach((place, i) => {
    if (Math.abs(place - at) < Math.abs(places[best] - at)) best = i;
  });
  return best;
}
// Pointer and arrow keys choose a place, leaving and Escape let go.
function follow(svg, count, find, read, leave, open) {
  let now = count - 1;
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    now = find(event.clientX - box.left, event.clientY - box.top);
    read(now);
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  if (open) svg.addEventListener("click", () => open(now));
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -count, End: count }[event.key];
    if (event.key === "Escape") leave();
    if (event.key === "Enter" && open) open(now);
    if (move === undefined) return;
    event.preventDefault();
    now = Math.min(Math.max(now + move, 0), count - 1);
    read(now);
  });
}
function showTip(title, rows, left, top) {
  const tip = $("tip");
  const line = ([name, value, tint]) =>
    h("div", {}, h("span", { style: tint ? { color: tint } : {} }, name), h("span", { class: "num" }, value));
  tip.replaceChildren(h("b", {}, title), ...rows.map(line));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(8, Math.min(left + 12, innerWidth - box.width - 8))}px`;
  tip.style.top = `${Math.max(8, Math.min(top + 12, innerHeight - box.height - 8))}px`;
}
const hideTip = () => {
  $("tip").hidden = true;
};
