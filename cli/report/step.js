// One step: streams, chunks on the device, memory, links.

const KINDS = ["op", "move", "update", "norm", "wait"];
const WIDE = {width: 1180, left: 84, right: 12};
const plotWidth = WIDE.width - WIDE.left - WIDE.right;

/** Slices as objects, waits of compute for other streams told apart from those for the cores. */
function readStep(timeline) {
  const name = (i) => timeline.names[i];
  const slices = timeline.slices.map(([track, kind, n, begin, length, chunk, detail, size]) => ({
    track: timeline.tracks[track], kind: KINDS[kind], name: name(n), begin, length, chunk,
    detail: name(detail), bytes: size,
  }));
  for (const s of slices) {
    s.blocks = s.kind === "wait" && s.track === "compute" && s.name !== "wait: cores";
  }
  const stays = timeline.stays.map(([chunk, plane, begin, length]) => ({
    chunk, plane: name(plane), begin, length,
  }));
  return {...timeline, slices, stays};
}

function kindColor(s) {
  if (s.kind === "wait") return s.track === "compute" ? "stall" : "held";
  if (s.kind !== "op") return s.kind;
  return s.detail.split(",")[0];
}

function sliceTip(s) {
  const what = s.bytes ? `\n${bytes(s.bytes)} at ${rate(s.bytes / s.length)}` : "";
  return `${s.name}${s.detail ? `\n${s.detail}` : ""}\nat ${seconds(s.begin)}, for ` +
      `${seconds(s.length)}${what}`;
}

/** Neighbours of one colour that are too small to see apart are drawn as one. */
function merged(slices, scale) {
  const out = [];
  let last = null;
  for (const s of slices) {
    const small = s.length * scale < 1;
    if (last && small && last.small && kindColor(last) === kindColor(s) &&
        (s.begin - last.begin - last.length) * scale < 0.7) {
      last.length = s.begin + s.length - last.begin;
      last.name = `${kindColor(s)}, several`;
      last.detail = "";
      last.bytes += s.bytes;
      continue;
    }
    last = {...s, small};
    out.push(last);
  }
  return out;
}

function timeAxis(svg, step, top, height) {
  const scale = plotWidth / step.seconds;
  for (const v of ticks(0, step.seconds, 10)) {
    const x = round(WIDE.left + v * scale);
    shape(svg, "line", {class: "gridline", x1: x, x2: x, y1: top, y2: top + height});
    shape(svg, "text", {x, y: top + height + 15, "text-anchor": "middle"}, seconds(v));
  }
  return (v) => round(WIDE.left + v * scale);
}

function drawStreams(parent, step) {
  const used = step.tracks.filter((t) => step.slices.some((s) => s.track === t));
  const row = 30, top = 4;
  const svg = chart(parent, WIDE.width, top + used.length * row + 24, "Streams over one step");
  const x = timeAxis(svg, step, top, used.length * row);
  const scale = plotWidth / step.seconds;
  used.forEach((track, i) => {
    const y = top + i * row + 3, height = row - 7;
    shape(svg, "text", {x: WIDE.left - 8, y: y + height / 2 + 4, "text-anchor": "end"}, track);
    const all = step.slices.filter((s) => s.track === track).sort((a, b) => a.begin - b.begin);
    const work = merged(all.filter((s) => s.kind !== "wait"), scale);
    // A stream's own waits are a strip below its work, but compute's stop it: they fill the row.
    const waits = merged(all.filter((s) => s.kind === "wait" && !s.blocks), scale);
    const blocks = merged(all.filter((s) => s.blocks), scale);
    const draw = (s, yy, h) => shape(svg, "rect", {
      x: x(s.begin), y: yy, width: Math.max(0.4, round(s.length * scale)), height: h,
      style: color(kindColor(s)), "data-tip": sliceTip(s),
      "data-chunk": s.chunk >= 0 ? s.chunk : null,
    });
    for (const s of work) draw(s, y, height - 4);
    for (const s of waits) draw(s, y + height - 3, 3);
    for (const s of blocks) draw(s, y, height);
  });
  const kinds = new Set(step.slices.map(kindColor));
  const words = {
    forward: "forward", reforward: "forward again", backward: "backward", tail: "tied gradients",
    norm: "norm", move: "transfers", update: "updates",
    stall: "compute waits for other streams, or (strip below) for the cores",
    held: "other streams wait",
  };
  legend(parent, Object.entries(words).filter(([k]) => kinds.has(k)));
}

function drawResidency(parent, step, choose) {
  const chunks = [...new Set(step.stays.map((s) => s.chunk).concat(
      step.slices.filter((s) => s.chunk >= 0).map((s) => s.chunk)))].sort((a, b) => a - b);
  if (!chunks.length) {
    element(parent, "p", "Nothing moves, and no chunk was seen on the device.", {class: "note"});
    return;
  }
  const row = Math.max(4, Math.min(18, 900 / chunks.length)), top = 4;
  const height = chunks.length * row;
  const svg = chart(parent, WIDE.width, top + height + 24, "Chunks on the device over one step");
  const at = new Map(chunks.map((c, i) => [c, top + i * row]));
  for (const c of chunks) {
    shape(svg, "rect", {
      class: "row", x: WIDE.left, y: at.get(c), width: plotWidth, height: row, "data-row": c,
      "data-tip": `chunk ${c}: ${step.chunks[c] || ""}`,
    });
  }
  const x = timeAxis(svg, step, top, height);
  const scale = plotWidth / step.seconds;
  const every = Math.ceil(13 / row);
  chunks.forEach((c, i) => {
    if (i % every) return;
    shape(svg, "text", {x: WIDE.left - 8, y: at.get(c) + row / 2 + 4, "text-anchor": "end"}, c);
  });
  const lanes = {weight: [0.06, 0.42], grad: [0.52, 0.26]};
  for (const s of step.stays) {
    const [from, share] = lanes[s.plane] || [0.82, 0.12];
    shape(svg, "rect", {
      x: x(s.begin), y: round(at.get(s.chunk) + from * row),
      width: Math.max(0.5, round(s.length * scale)), height: round(share * row),
      style: color(lanes[s.plane] ? s.plane : "optimizer"), "data-chunk": s.chunk,
      "data-tip": `${s.plane} of chunk ${s.chunk} on the device\n${step.chunks[s.chunk] || ""}\n` +
          `from ${seconds(s.begin)}, for ${seconds(s.length)}`,
    });
  }
  for (const s of step.slices.filter((w) => w.blocks && w.chunk >= 0)) {
    shape(svg, "rect", {
      class: "wait", x: x(s.begin), y: at.get(s.chunk), height: row,
      width: Math.max(1, round(s.length * scale)), "data-tip": sliceTip(s), "data-chunk": s.chunk,
    });
  }
  const planes = new Set(step.stays.map((s) => s.plane));
  const others = [...planes].filter((p) => !lanes[p]);
  const entries = [["weight", "weights"], ["grad", "gradients"]].filter(([p]) => planes.has(p));
  if (others.length) entries.push(["optimizer", others.join(", ")]);
  entries.push(["stall", "compute waits for the chunk"]);
  legend(parent, entries);
  parent.addEventListener("click", (event) => {
    const c = event.target.dataset.row || event.target.dataset.chunk;
    if (c !== undefined) choose(Number(c));
  });
  return (chunk) => {
    for (const r of svg.querySelectorAll(".chosen")) r.classList.remove("chosen");
    const r = svg.querySelector(`[data-row="${chunk}"]`);
    if (r) r.classList.add("chosen");
  };
}

/** What happened to a chunk, in order. */
function drawHistory(parent, step, chunk) {
  parent.replaceChildren();
  element(parent, "h3", `Chunk ${chunk}: ${step.chunks[chunk] || "no tensor of it moved"}`);
  const events = step.slices.filter((s) => s.chunk === chunk).map((s) => ({
    ...s,
    text: s.blocks ? `compute waits, ${s.detail}` : s.kind === "wait" ? `${s.track} waits` : s.name,
    where: s.kind === "wait" ? "" : s.detail,
  })).concat(step.stays.filter((s) => s.chunk === chunk).map((s) => ({
    ...s, text: `${s.plane} is on the device`, where: "", track: "", bytes: 0,
  }))).sort((a, b) => a.begin - b.begin);
  table(parent, [{number: "at"}, {number: "for"}, "what", "", "stream", {number: "bytes"}],
        events.slice(0, 200).map((e) => [
          {number: seconds(e.begin)}, {number: seconds(e.length)}, e.text, e.where, e.track,
          {number: e.bytes ? bytes(e.bytes) : ""},
        ]));
  if (events.length > 200) element(parent, "p", `and ${events.length - 200} more`, {class: "note"});
}

function drawMemory(parent, step, tiers) {
  for (const tier of tiers) {
    const usage = step.usage[tier.tier];
    if (!usage) continue;
    const names = Object.keys(usage.bytes);
    const sums = usage.times.map((_, i) => names.reduce((sum, n) => sum + usage.bytes[n][i], 0));
    const peak = Math.max(...sums, tier.planned_peak);
    const shows = tier.budget <= 2.5 * peak;  // else the budget would flatten the rest
    const high = (shows ? Math.max(peak, tier.budget) : peak) * 1.06;
    const height = 190;
    const svg = chart(parent, WIDE.width, height, `${tier.tier} memory`);
    const box = {left: WIDE.left, top: 26, width: plotWidth, height: height - 50};
    const {px, py} = frame(svg, box, [0, step.seconds], [0, high], {
      x: seconds, y: bytes, ticks: byteTicks,
    });
    shape(svg, "text", {class: "title", x: 4, y: 14}, tier.tier);
    shape(svg, "text", {x: WIDE.width - WIDE.right, y: 14, "text-anchor": "end"},
          `used at most ${bytes(Math.max(...sums))} in this step; planned peak ` +
          `${bytes(tier.planned_peak)} (dotted); budget ${bytes(tier.budget)}` +
          (shows ? " (dashed)" : ", above this plot"));
    const times = usage.times.concat([step.seconds]);
    let below = times.map(() => 0);
    for (const n of names) {
      const values = usage.bytes[n].concat([usage.bytes[n].at(-1)]);
      const above = values.map((v, i) => v + below[i]);
      const back = path([...times].reverse(), [...below].reverse(), px, py);
      // Down again as a staircase too: each value holds until the next.
      const down = [];
      for (let i = times.length - 1; i > 0; --i) {
        down.push(`L${round(px(times[i]))},${round(py(below[i - 1]))}`);
        down.push(`L${round(px(times[i - 1]))},${round(py(below[i - 1]))}`);
      }
      shape(svg, "path", {
        style: color(n), "data-tip": `${n}: at most ${bytes(Math.max(...values))}`,
        d: path(times, above, px, py, true) +
            (back ? `L${round(px(times.at(-1)))},${round(py(below.at(-1)))}` : "") +
            down.join("") + "Z",
      });
      below = above;
    }
    const level = (bytesOf, kind) => shape(svg, "path", {
      class: kind, d: `M${box.left},${round(py(bytesOf))}h${box.width}`,
    });
    if (shows) level(tier.budget, "limit");
    level(tier.planned_peak, "planned");
    legend(parent, names.map((n) => [n, n]));
  }
}

/** Bytes per second of a link over the step, in bins. */
function linkUse(moves, total, bins) {
  const use = new Array(bins).fill(0), width = total / bins;
  for (const m of moves) {
    const first = Math.floor(m.begin / width);
    const last = Math.min(bins - 1, Math.floor((m.begin + m.length) / width));
    for (let i = first; i <= last; ++i) {
      const overlap = Math.min((i + 1) * width, m.begin + m.length) - Math.max(i * width, m.begin);
      if (overlap > 0) use[i] += m.bytes * overlap / m.length / width;
    }
  }
  return use;
}

function drawLinks(parent, step, rates, ratesName) {
  let any = false;
  for (const [link, reference] of Object.entries(rates)) {
    const moves = step.slices.filter((s) => s.track === link && s.kind === "move" && s.bytes > 0);
    if (!moves.length) continue;
    any = true;
    const width = 580, height = 178;
    const holder = element(parent, "div");
    const svg = chart(holder, width, height, link);
    const box = {left: 68, top: 40, width: width - 84, height: height - 64};
    const use = linkUse(moves, step.seconds, 48);
    const most = Math.max(...use);
    const shows = reference <= 4 * most;
    const high = (shows ? Math.max(most, reference) : most) * 1.08;
    const {px, py} = frame(svg, box, [0, step.seconds], [0, high], {x: seconds, y: rate});
    const busy = moves.reduce((sum, m) => sum + m.length, 0);
    const moved = moves.reduce((sum, m) => sum + m.bytes, 0);
    shape(svg, "text", {class: "title", x: 4, y: 14}, link);
    shape(svg, "text", {x: 4, y: 30},
          `${bytes(moved)} a step, ${rate(moved / busy)} while busy, busy ` +
          `${percent(busy, step.seconds)}; ${ratesName} rate ${rate(reference)}` +
          (shows ? " (dashed)" : ", above"));
    let d = `M${box.left},${box.top + box.height}`;
    use.forEach((v, i) => {
      const x0 = round(px(step.seconds * i / use.length));
      const x1 = round(px(step.seconds * (i + 1) / use.length));
      d += `L${x0},${round(py(v))}L${x1},${round(py(v))}`;
    });
    shape(svg, "path", {style: color(link), d: `${d}V${box.top + box.height}Z`});
    if (shows) shape(svg, "path", {class: "limit", d: `M${box.left},${round(py(reference))}h${box.width}`});
  }
  if (!any) element(parent, "p", "Nothing moves between tiers in this step.", {class: "note"});
}
