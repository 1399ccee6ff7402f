// Curves over time, one below the other, with one cursor through all of them.
import { before, bytes, clock } from "./parts.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000, HEIGHT = 100;

const percent = (value) => (value === null ? "unknown" : `${Math.round(value)} %`);
const count = (value) => (value === null ? "unknown" : String(value));
const rate = (value) => (value === null ? "unknown" : `${bytes(Math.round(value))}/s`);

/**
 * What is drawn: a title, the words for a value, and lines from the two sources, with their kinds and, where there are several, their names.
 * Samples come by the minute: until then, `until_then` tells of snapshots.
 */
const TRACKS = [
  { title: "memory", words: bytes, lines: [["curve", "tree_rss_bytes", "", "RSS"], ["curve", "cgroup_memory_bytes", "second", "cgroup"], ["looks", "memory_limit_bytes", "limit", "limit"]], until_then: ["looks", "memory_bytes", "", "used"] },
  { title: "CPU, of one core", words: percent, lines: [["curve", "cpu_percent", ""]], until_then: ["looks", "cpu_percent", ""] },
  { title: "held back by quota", words: percent, lines: [["looks", "throttled_percent", ""]], is_optional: true },
  { title: "storage", words: rate, lines: [["curve", "read_rate", "", "read"], ["curve", "write_rate", "second", "written"]], is_optional: true },
  { title: "pressure: CPU", words: percent, lines: [["looks", "pressure_cpu_percent", ""]], most: 100 },
  { title: "pressure: storage", words: percent, lines: [["looks", "pressure_io_percent", ""]], most: 100 },
  { title: "pressure: memory", words: percent, lines: [["looks", "pressure_memory_percent", ""]], most: 100 },
  { title: "GPUs, mean", words: percent, lines: [["looks", "gpu_percent", ""]], most: 100, is_optional: true },
  { title: "processes", words: count, lines: [["curve", "process_count", ""]], until_then: ["looks", "processes", ""] },
];

/** Draws `data` into `place`; `choose` is called with a time that a person points at. Returns what moves the cursor. */
export function draw(place, data, choose) {
  add_rates(data.curve);
  const span = Math.max(1, data.to - data.from);
  const x = (at) => ((at - data.from) / span) * WIDTH;
  const parts = [];
  const moves = [];
  for (const track of TRACKS) {
    const lines = track.lines.map(([source, column, kind, name]) => ({ at: data[source].at, values: data[source][column] ?? [], kind, name, until: reach(data, source) }));
    if (track.until_then) {
      const then = since_then(track.until_then, data);
      lines[0].until = Math.min(lines[0].until, (then.at[0] ?? Infinity) - 1);
      lines.unshift(then);
    }
    const known = lines.filter((line) => line.values.some((value) => value !== null));
    const is_flat = known.every((line) => line.values.every((value) => !value));
    if (track.is_optional && is_flat) continue;
    const top = track.most ?? Math.max(1e-9, ...known.flatMap((line) => line.values.filter((value) => value !== null))) * 1.05;
    const svg = picture();
    for (const line of known) svg.append(...curve(line, x, (value) => HEIGHT - (value / top) * HEIGHT));
    const row = element("div", "track");
    const values = known.map((line) => element("span", line.name ? `key ${line.kind}` : ""));
    const none = element("span", "", "not known");
    const label = element("div", "label", element("b", "", track.title), ...values, none);
    const plot = element("div", "plot", svg);
    row.append(label, plot);
    parts.push(row);
    pointing(plot, data, choose);
    moves.push((at) => {
      let is_told = false;
      known.forEach((line, index) => {
        const place = before(line.at, at);
        // What is older than the instant by much is not its value.
        values[index].hidden = place < 0 || at > line.until;
        is_told ||= !values[index].hidden;
        const words = track.words(line.values[place] ?? null);
        values[index].textContent = line.name ? `${line.name} ${words}` : words;
      });
      none.hidden = is_told;
    });
  }
  const happened = events(data, x);
  pointing(happened.querySelector(".plot"), data, choose);
  parts.push(happened);
  const axis = element("div", "axis", element("span", "", clock(data.from)), element("span", "", `${clock(data.to)} UTC`));
  const cursors = parts.map((row) => {
    const cursor = element("div", "cursor");
    row.querySelector(".plot").append(cursor);
    return cursor;
  });
  const list = told(data);
  const words = data.troubles.map((text) => element("p", "gap", text));
  if (data.missing > 0) words.push(element("p", "quiet", `${data.missing} objects are still being read`));
  place.replaceChildren(...parts, axis, list, ...words);
  return (at) => {
    const left = `${(Math.min(WIDTH, Math.max(0, x(at))) / WIDTH) * 100}%`;
    for (const cursor of cursors) cursor.style.left = left;
    for (const move of moves) move(at);
  };
}

/** Until when a source tells: samples, which come by the minute, a little longer than their last one. */
function reach(data, source) {
  const at = data[source].at;
  if (source !== "curve" || at.length < 2) return Infinity;
  const last = at[at.length - 1];
  return last + (2 * (last - at[0])) / (at.length - 1) + 1e6;
}

/** What snapshots tell since the last sample; all of them where there are no samples yet. */
function since_then([source, column, kind, name], data) {
  const samples = data.curve.at;
  const last = samples.length < 2 ? -Infinity : samples[samples.length - 1];
  const first = data[source].at.findIndex((at) => at > last);
  const later = (list) => (first < 0 ? [] : (list ?? []).slice(first));
  return { at: later(data[source].at), values: later(data[source][column]), kind, name, until: Infinity };
}

/** Bytes of a point become bytes a second. */
function add_rates(curve) {
  const over = curve.at.map((at, index) => (index === 0 ? null : (at - curve.at[index - 1]) / 1e6));
  const rates = (column) => column.map((value, index) => (value === null || !over[index] ? null : value / over[index]));
  curve.read_rate = rates(curve.read_bytes);
  curve.write_rate = rates(curve.written_bytes);
}

function curve({ at, values, kind }, x, y) {
  let path = "", is_down = false, first = null, last = null;
  at.forEach((time, index) => {
    const value = values[index];
    if (value === null || value === undefined) { is_down = false; return; }
    path += `${is_down ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    is_down = true;
    first ??= time;
    last = time;
  });
  if (path.split("M").length === 2 && !path.includes("L")) path += "h1"; // one point alone
  const line = node("path", { d: path, class: `curve ${kind}` });
  const is_whole = path.split("M").length === 2;
  if (kind !== "" || !is_whole) return [line];
  return [node("path", { d: `${path}L${x(last)} ${HEIGHT}L${x(first)} ${HEIGHT}Z`, class: "area" }), line];
}

/** Findings, ends and stages on one line. */
function events(data, x) {
  const svg = picture();
  for (const [from, until] of data.found) {
    const [begin, end] = [Math.max(data.from, from), Math.min(data.to, until)];
    if (begin <= end) svg.append(node("rect", { x: x(begin), y: 0, width: Math.max(2, x(end) - x(begin)), height: 50, class: "found" }));
  }
  data.looks.findings.forEach((findings, index) => {
    if (findings.length === 0) return;
    const mark = node("path", { d: triangle(x(data.looks.at[index])), class: `mark ${findings[0].severity}` });
    mark.append(title(findings.map((finding) => finding.message).join("\n")));
    svg.append(mark);
  });
  for (const event of data.events) {
    const from = x(event.at);
    if (event.kind === "stage") {
      const to = x(event.until ?? data.to);
      svg.prepend(node("rect", { x: from, y: 55, width: Math.max(2, to - from), height: 40, class: "mark stage" }));
    } else {
      const mark = node("path", { d: triangle(from), class: "mark end" });
      mark.append(title(event.words));
      svg.append(mark);
    }
  }
  return element("div", "track slim", element("div", "label", element("b", "", "findings, ends, stages")), element("div", "plot", svg));
}

const triangle = (x) => `M${x - 6} 5h12l-6 45Z`;

/** The same as words: for who cannot point at a mark. */
function told(data) {
  const findings = data.looks.findings.flatMap((list, index) => list.map((finding) => [data.looks.at[index], `${finding.severity}: ${finding.message}`]));
  // One that stays is told once.
  const first = new Map();
  for (const [at, words] of findings) if (!first.has(words)) first.set(words, at);
  const ends = data.events.map((event) => [event.at, event.kind === "stage" ? `stage ${event.words}` : event.words]);
  const all = [...[...first].map(([words, at]) => [at, words]), ...ends].sort((one, other) => one[0] - other[0]);
  if (all.length === 0) return element("p", "quiet", "no findings, no stages, and no process ended badly");
  const list = element("ul", "events", ...all.map(([at, words]) => element("li", "", `${clock(at)} ${words}`)));
  return element("details", "", element("summary", "", `what happened (${all.length})`), list);
}

function pointing(plot, data, choose) {
  const point = (event) => {
    const box = plot.getBoundingClientRect();
    choose(data.from + ((event.clientX - box.left) / box.width) * (data.to - data.from));
  };
  plot.addEventListener("pointerdown", (event) => { plot.setPointerCapture(event.pointerId); point(event); });
  plot.addEventListener("pointermove", (event) => { if (event.buttons & 1) point(event); });
}

function picture() {
  return node("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
}

function node(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function title(words) {
  const made = document.createElementNS(SVG, "title");
  made.textContent = words;
  return made;
}

export function element(name, className = "", ...content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...content);
  return made;
}
