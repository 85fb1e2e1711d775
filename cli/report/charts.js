"use strict";
// Small drawing helpers: everything is SVG with classes, so that themes and print need no redrawing.

const NAMESPACE = document.getElementById("seed").namespaceURI;

function shape(parent, tag, attributes = {}, text = null) {
  const e = document.createElementNS(NAMESPACE, tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) e.setAttribute(key, value);
  }
  if (text !== null) e.textContent = text;
  parent.appendChild(e);
  return e;
}

function element(parent, tag, text = null, attributes = {}) {
  const e = document.createElement(tag);
  if (text !== null) e.textContent = text;
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  parent.appendChild(e);
  return e;
}

function chart(parent, width, height, label) {
  return shape(parent, "svg", {
    class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label,
  });
}

const round = (x) => Math.round(x * 100) / 100;
const color = (name) => `fill: var(--${name})`;

// ---- numbers for people

function digits(x) {
  const a = Math.abs(x);
  if (a === 0) return "0";
  if (a >= 100) return Math.round(x).toLocaleString("en-US");
  if (a >= 0.001) return String(Number(x.toPrecision(3)));
  return x.toExponential(1);
}

function scaled(x, units, base) {
  let i = 0;
  while (Math.abs(x) >= base && i + 1 < units.length) {
    x /= base;
    ++i;
  }
  return `${digits(x)} ${units[i]}`;
}

const bytes = (n) => scaled(n, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
const rate = (n) => scaled(n, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], 1000);

function seconds(s) {
  const a = Math.abs(s);
  if (a >= 1) return `${digits(s)} s`;
  return a >= 1e-3 || a === 0 ? `${digits(s * 1e3)} ms` : `${digits(s * 1e6)} µs`;
}

const percent = (part, whole) => `${whole > 0 ? (100 * part / whole).toFixed(1) : "0.0"} %`;

/** Round values from 0 or `low` to `high`, about `count` of them. */
function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-12); ++k) out.push(k * step);
  return out;
}

// ---- frames and lines

/** The same of bytes: round in binary units. */
function byteTicks(low, high, count) {
  const unit = Math.pow(1024, Math.max(0, Math.floor(Math.log2(Math.max(high, 1)) / 10)));
  return ticks(low / unit, high / unit, count).map((v) => v * unit);
}

/** Axes of a plot; returns functions from values to pixels. */
function frame(svg, box, x, y, format) {
  const px = (v) => box.left + (v - x[0]) / ((x[1] - x[0]) || 1) * box.width;
  const py = (v) => box.top + box.height - (v - y[0]) / ((y[1] - y[0]) || 1) * box.height;
  for (const v of (format.ticks || ticks)(y[0], y[1], 4)) {
    shape(svg, "line", {
      class: "gridline", x1: box.left, x2: box.left + box.width, y1: round(py(v)), y2: round(py(v)),
    });
    shape(svg, "text", {x: box.left - 6, y: round(py(v)) + 4, "text-anchor": "end"}, format.y(v));
  }
  for (const v of ticks(x[0], x[1], 6)) {
    shape(svg, "text", {x: round(px(v)), y: box.top + box.height + 15, "text-anchor": "middle"},
          format.x(v));
  }
  shape(svg, "path", {
    class: "axis",
    d: `M${box.left},${box.top}V${box.top + box.height}H${box.left + box.width}`,
  });
  return {px, py};
}

/** A path through points, with gaps where a value is missing. */
function path(xs, ys, px, py, staircase = false) {
  let d = "", pen = false;
  xs.forEach((x, i) => {
    if (ys[i] === null || ys[i] === undefined) {
      pen = false;
      return;
    }
    const at = `${round(px(x))},${round(py(ys[i]))}`;
    if (pen && staircase) d += `H${round(px(x))}`;
    d += (pen ? "L" : "M") + at;
    pen = true;
  });
  return d;
}

function extent(values) {
  const known = values.filter((v) => v !== null && v !== undefined);
  let low = Infinity, high = -Infinity;
  for (const v of known) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  return known.length ? [low, high] : [0, 1];
}

/** A line over steps. `dots`: [x, y] of single values. */
function lineChart(parent, title, xs, ys, options = {}) {
  const width = 580, height = 190;
  const svg = chart(parent, width, height, title);
  const box = {left: 56, top: 28, width: width - 72, height: height - 52};
  const dots = options.dots || [];
  let [low, high] = extent(ys.concat(dots.map((d) => d[1])));
  if (options.zero) low = Math.min(0, low);
  if (low === high) high = low + (Math.abs(low) || 1);
  const x = extent(xs);
  if (x[0] === x[1]) x[1] = x[0] + 1;
  const {px, py} = frame(svg, box, x, [low, high], {
    x: (v) => (Number.isInteger(v) ? digits(v) : ""), y: options.format || digits,
  });
  shape(svg, "text", {class: "title", x: 4, y: 14}, title);
  if (ys.length === 1) {
    shape(svg, "circle", {cx: px(xs[0]), cy: py(ys[0]), r: 2.5, style: color("accent")});
  }
  shape(svg, "path", {class: "series", d: path(xs, ys, px, py)});
  for (const [a, b] of dots) {
    shape(svg, "circle", {
      class: "dot", cx: round(px(a)), cy: round(py(b)), r: 3,
      "data-tip": `${options.dotName} after step ${a}: ${digits(b)}`,
    });
  }
  const hover = shape(svg, "rect", {
    x: box.left, y: box.top, width: box.width, height: box.height, fill: "transparent",
  });
  if (dots.length) svg.insertBefore(hover, svg.querySelector(".dot"));
  hover.addEventListener("mousemove", (event) => {
    const at = hover.getBoundingClientRect();
    const v = x[0] + (event.clientX - at.left) / at.width * (x[1] - x[0]);
    let best = 0;
    xs.forEach((s, i) => {
      if (Math.abs(s - v) < Math.abs(xs[best] - v)) best = i;
    });
    const value = ys[best] === null ? "none" : (options.format || digits)(ys[best]);
    showTip(`step ${xs[best]}: ${value}`, event);
  });
  hover.addEventListener("mouseleave", hideTip);
}

function legend(parent, entries) {
  const list = element(parent, "ul", null, {class: "legend"});
  for (const [name, text] of entries) {
    const item = element(list, "li");
    element(item, "i", null, {style: `background: var(--${name})`});
    item.append(text);
  }
}

/** Rows of cells; numbers are objects {number: text}. */
function table(parent, header, rows) {
  const t = element(parent, "table");
  const add = (tag, cells) => {
    const row = element(t, "tr");
    for (const c of cells) {
      const number = c !== null && typeof c === "object";
      element(row, tag, number ? c.number : c, number ? {class: "number"} : {});
    }
  };
  add("th", header);
  for (const r of rows) add("td", r);
}

// ---- what the pointer is on

const tip = document.getElementById("tip");

function showTip(text, event) {
  tip.textContent = text;
  tip.hidden = false;
  const right = event.clientX + 16 + tip.offsetWidth > innerWidth;
  tip.style.left = `${right ? event.clientX - tip.offsetWidth - 10 : event.clientX + 14}px`;
  tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 6)}px`;
}

function hideTip() {
  tip.hidden = true;
}

document.addEventListener("mouseover", (event) => {
  const e = event.target.closest && event.target.closest("[data-tip]");
  if (e) showTip(e.dataset.tip, event);
});
document.addEventListener("mouseout", (event) => {
  if (event.target.closest && event.target.closest("[data-tip]")) hideTip();
});
