// Run inside a report by tests/browser.py: wait for views, measure contrast, work every control.
const pause = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
const settled = async (before) => {
  for (let i = 0; i < 600 && document.body.dataset.shown === before; i++) await pause();
  if (document.body.dataset.shown === before) throw new Error(`nothing was shown for ${location.hash}`);
  await pause();
};
const visit = async (hash) => {
  if (location.hash === hash) return;
  const before = document.body.dataset.shown;
  location.hash = hash;
  await settled(before);
};
const overflow = () => document.scrollingElement.scrollWidth - innerWidth;

const parse = (text) => {
  const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
  return { r, g, b, a };
};
const over = (top, below) =>
  Object.fromEntries(["r", "g", "b"].map((k) => [k, top[k] * top.a + below[k] * (1 - top.a)]).concat([["a", 1]]));
const luminance = ({ r, g, b }) => {
  const [x, y, z] = [r, g, b].map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const background = (node) => {
  const layers = [];
  for (let at = node; at; at = at.parentElement) {
    const c = parse(getComputedStyle(at).backgroundColor);
    layers.push(c);
    if (c.a === 1) break;
  }
  return layers.reverse().reduce((below, top) => over(top, below), { r: 255, g: 255, b: 255, a: 1 });
};
// Texts whose colour is too near to what is behind them (WCAG AA: 4.5, or 3 for large text).
const faint = () => {
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (
      !walker.currentNode.data.trim() ||
      ["SCRIPT", "STYLE", "NOSCRIPT"].includes(node.tagName) ||
      !node.checkVisibility()
    )
      continue;
    const style = getComputedStyle(node);
    const behind = background(node);
    const front = over(parse(node instanceof SVGElement ? style.fill : style.color), behind);
    const [a, b] = [luminance(front), luminance(behind)].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (large ? 3 : 4.5))
      found.add(
        `${ratio.toFixed(2)} ${node.tagName}.${node.getAttribute("class") || ""} "${walker.currentNode.data.trim().slice(0, 40)}"`,
      );
  }
  return [...found];
};
const nameless = () =>
  [...document.querySelectorAll("button, a, select, input, svg[role=img]")]
    .filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label") || node.labels?.length))
    .map((node) => node.outerHTML.slice(0, 80));
const links = () => [...new Set([...document.querySelectorAll("main a")].map((a) => a.getAttribute("href")))];

// Every option of every list, every box, sort button, fold, search field and chart of the view, one after the other.
const work = async () => {
  let done = 0;
  const change = async (node, event) => {
    node.dispatchEvent(new Event(event, { bubbles: true }));
    done += 1;
    await pause();
  };
  for (const name of [...document.querySelectorAll("main select")].map((node, i) => i)) {
    const list = () => document.querySelectorAll("main select")[name];
    for (const { value } of [...(list()?.options || [])].slice(0, 12)) {
      if (list() && list().name !== "run") {
        list().value = value;
        await change(list(), "change");
      }
    }
    if (list() && list().name !== "run") {
      list().value = list().options[0].value;
      await change(list(), "change");
    }
  }
  for (const box of document.querySelectorAll("main input[type=checkbox]")) {
    box.click();
    await pause();
    box.click();
    await pause();
    done += 2;
  }
  for (const field of document.querySelectorAll("main input[type=search]"))
    for (const text of ["a", "no such text", ""]) {
      field.value = text;
      await change(field, "input");
    }
  for (const slide of document.querySelectorAll("main input[type=range]"))
    for (const value of [0.8, 0]) {
      slide.value = value;
      await change(slide, "input");
    }
  const sorts = () => document.querySelectorAll("main th button");
  for (let i = 0; i < sorts().length; i++) {
    sorts()[i].click();
    await pause();
    done += 1;
  }
  for (const button of document.querySelectorAll("main .pager button:not(:disabled)")) {
    button.click();
    await pause();
    done += 1;
  }
  for (const fold of document.querySelectorAll("main details")) {
    fold.open = true;
    done += 1;
  }
  for (const svg of [...document.querySelectorAll("main svg[tabindex]")].slice(0, 12)) {
    svg.focus();
    for (const key of ["Home", "ArrowRight", "End", "ArrowLeft", "Escape"]) {
      svg.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      done += 1;
    }
  }
  document.activeElement.blur();
  await pause();
  return done;
};
