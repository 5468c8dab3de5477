// Scatter plots of records: form and colour both name the class, a click or Enter opens what is under the cursor.
const FORMS = [
  (x, y) => s("circle", { cx: x, cy: y, r: 4 }),
  (x, y) => s("path", { d: `M${x} ${y - 5}l4.8 8.6h-9.6z` }),
  (x, y) => s("rect", { x: x - 3.6, y: y - 3.6, width: 7.2, height: 7.2 }),
  (x, y) => s("path", { d: `M${x} ${y - 5}l5 5l-5 5l-5-5z` }),
];
// spec: {name, points: [{x, y, kind, title, rows}], kinds: [names], tints, xName, yName, range: [x0, x1, y0, y1], open(i), axes}
function scatter(spec) {
  const box = chartBox((width) => drawPoints(spec, width));
  const key = (name, i) =>
    h(
      "li",
      {},
      s("svg", { "aria-hidden": "true" }, fill(FORMS[i % 4](11, 5), { fill: spec.tints[i] }, [])),
      words(name),
    );
  return h("div", {}, h("ul", { class: "legend" }, spec.kinds.map(key)), box);
}
function extent(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = (high - low || 1) * 0.06;
  return [low - room, high + room];
}
function drawPoints(spec, width) {
  const height = Math.round(Math.min(340, Math.max(240, width * 0.6)));
  const [w, t] = [width - PAD.left - PAD.right, height - PAD.top - PAD.bottom - 14];
  const [x0, x1, y0, y1] = spec.range || [
    ...extent(spec.points.map((p) => p.x)),
    ...extent(spec.points.map((p) => p.y)),
  ];
  const [x, y] = [(v) => (w * (v - x0)) / (x1 - x0), (v) => t * (1 - (v - y0) / (y1 - y0))];
  const plot = s(
    "g",
    { transform: `translate(${PAD.left} ${PAD.top})` },
    s("rect", { width: w, height: t, fill: "none", stroke: "var(--grid)" }),
  );
  if (spec.axes !== false) {
    for (const mark of ticks(y0, y1, 4))
      plot.append(
        s("line", { x1: 0, x2: w, y1: y(mark), y2: y(mark), stroke: "var(--grid)" }),
        s("text", { x: -7, y: y(mark) + 4, "text-anchor": "end" }, num(mark)),
      );
    for (const mark of ticks(x0, x1, 5))
      plot.append(s("text", { x: x(mark), y: t + 16, "text-anchor": "middle" }, num(mark)));
  }
  plot.append(s("text", { x: w, y: t + 31, "text-anchor": "end" }, spec.xName), s("text", { x: 4, y: 12 }, spec.yName));
  const spots = spec.points.map((p) => [x(p.x), y(p.y)]);
  spec.points.forEach((p, i) =>
    plot.append(fill(FORMS[p.kind % 4](...spots[i]), { fill: spec.tints[p.kind], opacity: 0.65 }, [])),
  );
  const ring = s("circle", { r: 8, fill: "none", stroke: "var(--text)", "stroke-width": 2, visibility: "hidden" });
  plot.append(ring);
  const svg = s(
    "svg",
    {
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      tabindex: "0",
      style: { cursor: "pointer" },
      "aria-label": `${spec.name}: ${many(spots.length, "point")}. Arrow keys go through them, Enter opens one.`,
    },
    plot,
  );
  const closest = (px, py) => {
    let [best, least] = [0, Infinity];
    spots.forEach(([sx, sy], i) => {
      const d = (sx - px + PAD.left) ** 2 + (sy - py + PAD.top) ** 2;
      if (d < least) [best, least] = [i, d];
    });
    return best;
  };
  const read = (i) => {
    ring.setAttribute("cx", spots[i][0]);
    ring.setAttribute("cy", spots[i][1]);
    ring.setAttribute("visibility", "visible");
    const at = svg.getBoundingClientRect();
    showTip(spec.points[i].title, spec.points[i].rows, at.left + PAD.left + spots[i][0], at.top + spots[i][1]);
  };
  follow(
    svg,
    spots.length,
    closest,
    read,
    () => {
      ring.setAttribute("visibility", "hidden");
      hideTip();
    },
    spec.open,
  );
  return svg;
}
