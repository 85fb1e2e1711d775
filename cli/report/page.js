// The page: reads the data and fills each section.

const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);

function drawHeader() {
  document.title = `strata: ${data.run}`;
  find("title").textContent = `${data.model}, ${data.run}`;
  find("verdict").textContent = data.verdict;
  find("command").textContent = data.command;
  const used = data.metrics.used_peak;
  const facts = [
    ["Policy", data.policy === data.planned_by ? data.policy
                                               : `${data.policy}: ${data.planned_by}`],
    ["Steps done", digits(data.metrics.step.at(-1))],
    ["Tokens of a step", digits(data.tokens)],
    ["Threads, type", `${data.threads}, ${data.dtype}`],
    ["State", `${bytes(data.state_bytes)}, ${data.chunks} chunks of ${bytes(data.chunk_bytes)}`],
  ];
  for (const t of data.tiers) {
    facts.push([`${t.tier}: used peak, planned, budget`,
                `${used[t.tier] === undefined ? "?" : bytes(used[t.tier])}, ` +
                `${bytes(t.planned_peak)}, ${bytes(t.budget)}`]);
  }
  for (const [name, value] of facts) {
    const group = element(find("facts"), "div");
    element(group, "dt", name);
    element(group, "dd", value);
  }
}

function drawMetrics() {
  const m = data.metrics, at = find("metrics");
  const note = m.steps_per_point > 1 ? `, means of ${m.steps_per_point} steps` : "";
  const dots = m.validation;
  lineChart(at, `Loss${dots.length ? " (dots: validation)" : ""}${note}`, m.step, m.loss,
            {dots, dotName: "validation loss"});
  lineChart(at, `Tokens per second${note}`, m.step, m.tokens_per_second, {zero: true});
  lineChart(at, `Gradient norm${note}`, m.step, m.grad_norm, {zero: true});
  lineChart(at, `Learning rate${note}`, m.step, m.lr, {zero: true});
}

/** [color, name, seconds] of a step's parts, compute first. */
function parts(step) {
  const out = [["compute", "compute", step.compute_seconds]];
  for (const [cause, s] of Object.entries(step.stalls)) {
    const name = {
      sharing: "others on the cores", issuer: "nothing issued", update: "waits for updates",
    }[cause] || `waits for ${cause}`;
    if (s > 5e-4 * step.step_seconds) out.push([cause, name, s]);
  }
  return out;
}

function drawWaterfall() {
  const at = find("waterfall");
  const rows = [];
  if (data.measured) {
    rows.push([`measured, mean of ${data.measured.steps} steps`, data.measured]);
  }
  rows.push([`predicted at ${data.rates} rates`, data.predicted]);
  const longest = Math.max(...rows.map(([, s]) => s.step_seconds));
  const width = 1180, row = 48;
  const svg = chart(at, width, rows.length * row + 4, "Parts of a step");
  const names = new Map();
  rows.forEach(([title, step], i) => {
    const y = i * row;
    shape(svg, "text", {x: 0, y: y + 14}, `${title}: ${seconds(step.step_seconds)}`);
    let x = 0;
    for (const [key, name, s] of parts(step)) {
      const w = s / longest * width;
      shape(svg, "rect", {
        x: round(x), y: y + 20, width: Math.max(0.5, round(w)), height: 20, style: color(key),
        "data-tip": `${name}: ${seconds(s)}, ${percent(s, step.step_seconds)}`,
      });
      if (w > 70) {
        shape(svg, "text", {class: "inside", x: round(x + 6), y: y + 34},
              percent(s, step.step_seconds));
      }
      x += w;
      names.set(key, name);
    }
  });
  legend(at, [...names]);
  const header = ["", ...rows.map(([title]) => ({number: title}))];
  const cell = (step, key) => {
    const part = parts(step).find(([k]) => k === key);
    return {number: part ? `${seconds(part[2])}, ${percent(part[2], step.step_seconds)}` : "-"};
  };
  element(at, "h3", "Parts");
  table(at, header, [...names].map(([key, name]) => [name, ...rows.map(([, s]) => cell(s, key))]));
  element(at, "p", "A wait counts for whoever was at work meanwhile: where compute waits for an " +
          "update that waits for a read, for the read.", {class: "note"});
}

function drawAdvice() {
  const at = find("advice"), m = data.measured;
  element(at, "h3", "Advice");
  if (!m) {
    element(at, "p", "The run has not ended: stalls are measured and advice is given when it does.",
            {class: "note"});
    return;
  }
  const list = element(at, "ul");
  for (const a of m.advice) element(list, "li", a.text);
  if (!m.advice.length) element(list, "li", "none: the run was stopped before its end");
  if (m.predicted_step_seconds) {
    element(at, "p", `Predicted by simulation at the rates ${m.rates}, at which this run's own ` +
            `step is predicted to take ${seconds(m.predicted_step_seconds)}; it took ` +
            `${seconds(m.step_seconds)}.`, {class: "note"});
  }
  if (!m.chunks.length) return;
  element(at, "h3", "Chunks waited for most");
  table(at, [{number: "chunk"}, "tensors", {number: "of a step"}], m.chunks.map((c) => [
    {number: String(c.chunk)}, c.tensors, {number: seconds(c.seconds)},
  ]));
}

function drawStep() {
  const step = readStep(data.timeline);
  const measured = step.source === "measured";
  const words = measured ? `measured, step ${step.step}`
                         : `simulated at ${data.rates} rates`;
  for (const e of document.querySelectorAll(".source")) e.textContent = words;
  drawStreams(find("streams"), step);
  let mark = () => {};
  const choose = (chunk) => {
    drawHistory(find("history"), step, chunk);
    mark(chunk);
  };
  mark = drawResidency(find("residency"), step, choose) || mark;
  const most = new Map();
  for (const s of step.slices) {
    if (s.chunk >= 0) most.set(s.chunk, (most.get(s.chunk) || 0) + (s.blocks ? s.length : 1e-12));
  }
  const first = [...most].sort((a, b) => b[1] - a[1] || a[0] - b[0])[0];
  if (first) choose(first[0]);
  find("streams").addEventListener("click", (event) => {
    if (event.target.dataset.chunk !== undefined) choose(Number(event.target.dataset.chunk));
  });
  drawMemory(find("memory"), step, data.tiers);
  drawLinks(find("links"), step, data.links, data.rates);
}

drawHeader();
drawMetrics();
drawWaterfall();
drawAdvice();
drawStep();
