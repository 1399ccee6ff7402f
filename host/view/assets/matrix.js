// Ranks by time: a picture with one dot a rank and instant, and in words who is where at the chosen instant.
import { before, clock } from "./parts.js";
import { element } from "./timeline.js";

const UNREAD = -1, ABSENT = -2, UNREADABLE = -3, SILENT = -4;
/** A class with so small a share of the ranks is odd, where another has most of them. */
const FEW = 0.1, MOST = 0.5;
/** Odd ranks that are named beside the picture. */
const NAMED = 8;
/** Rows of the table. */
const ROWS = 40;
/** Rows of dots. Where there are more ranks, each has several, and shows the one that stands out most. */
const DOTS = 512;

/** Draws `data` into `place`. Returns what shows another instant. */
export function draw(place, data, colour, choose) {
  const drawing = opened(place, data);
  if (!drawing) return () => {};
  const { canvas, cells, ranks, steps, words } = drawing;
  canvas.width = cells.length;
  canvas.height = Math.min(ranks, DOTS);
  canvas.style.height = `${Math.max(canvas.height, Math.min(ranks * 14, 220))}px`;
  paint(canvas, cells, steps, ranks, colour);
  const cursor = element("div", "cursor");
  const map = element("div", "map", canvas, cursor, element("span", "first", String(data.ranks[0])), element("span", "last", ranks > 1 ? String(data.ranks[ranks - 1]) : ""));
  place.replaceChildren(element("div", "matrix", map), ...unread(data), words);
  canvas.addEventListener("pointerdown", (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / box.width) * cells.length);
    choose(data.columns[Math.min(cells.length - 1, Math.max(0, column))]);
  });
  return (at) => {
    const column = Math.max(0, before(data.columns, at));
    cursor.style.left = `${((column + 0.5) / cells.length) * 100}%`;
    for (const old of map.querySelectorAll(".odd")) old.remove();
    const odd = odds(cells[column]);
    const named = [...cells[column].keys()].filter((rank) => odd.has(cells[column][rank]));
    for (const rank of named.slice(0, NAMED)) {
      const mark = element("span", "odd", `◀ ${data.ranks[rank]}`);
      mark.style.top = `${((rank + 0.5) / ranks) * 100}%`;
      map.append(mark);
    }
    words.replaceChildren(table(data, cells, steps, column, odd), ...back(data, cells, column, choose));
    canvas.setAttribute("aria-label", `${ranks} ranks at ${cells.length} instants; the table tells the chosen one`);
  };
}

/** What every picture of ranks begins with: its canvas, the room for its table, and the values; null where there are no ranks. */
export function opened(place, data) {
  const ranks = data.ranks.length;
  if (ranks === 0) {
    place.replaceChildren(element("p", "quiet", data.missing > 0 ? "reading…" : "this run has no ranks: no process has a RANK, and no plugin told one"));
    return null;
  }
  const canvas = element("canvas");
  canvas.setAttribute("role", "img");
  const words = element("div", "wide");
  words.tabIndex = 0;
  const spreads = (rows) => rows.map((row) => spread(row, ranks));
  return { canvas, cells: spreads(data.cells), ranks, steps: spreads(data.steps), words };
}

/** How many snapshots are still to come, in words. */
export function unread(data) {
  return data.missing > 0 ? [element("p", "quiet", `${data.missing} snapshots are still being read`)] : [];
}

/** Runs of equal values become the values. */
export function spread(runs, count) {
  const values = [];
  for (let index = 0; index < runs.length && values.length < count; index += 2) {
    for (let times = runs[index + 1]; times > 0 && values.length < count; times -= 1) values.push(runs[index]);
  }
  return values;
}

/** The classes that few ranks are in while most are elsewhere. */
export function odds(row) {
  const counts = new Map();
  for (const cell of row) if (cell >= 0) counts.set(cell, (counts.get(cell) ?? 0) + 1);
  const all = [...counts.values()].reduce((sum, more) => sum + more, 0);
  const has_most = [...counts.values()].some((many) => many > all * MOST);
  const few = Math.max(1, all * FEW);
  return new Set(has_most ? [...counts].filter(([, many]) => many <= few).map(([cell]) => cell) : []);
}

function paint(canvas, cells, steps, ranks, colour) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(cells.length, canvas.height);
  const is_dark = matchMedia("(prefers-color-scheme: dark)").matches;
  cells.forEach((row, column) => {
    const odd = odds(row);
    const counted = steps[column] ?? [];
    const known = counted.filter((step) => step !== null);
    const [least, most] = [Math.min(...known), Math.max(...known)];
    const is_by_step = (rank) => colour === "progress" && row[rank] >= 0;
    // Who is elsewhere, or behind, comes first.
    const standing_out = (rank) => {
      if (colour !== "progress") return Number(odd.has(row[rank]));
      return is_by_step(rank) ? -(counted[rank] ?? Infinity) : -Infinity;
    };
    for (let dot = 0; dot < canvas.height; dot += 1) {
      const end = Math.floor(((dot + 1) * ranks) / canvas.height);
      let shown = Math.floor((dot * ranks) / canvas.height);
      for (let rank = shown + 1; rank < end; rank += 1) if (standing_out(rank) > standing_out(shown)) shown = rank;
      const [red, green, blue] = is_by_step(shown)
        ? by_step(counted[shown] ?? null, least, most, is_dark)
        : by_class(row[shown], odd.has(row[shown]), is_dark);
      image.data.set([red, green, blue, 255], (dot * cells.length + column) * 4);
    }
  });
  context.putImageData(image, 0, 0);
}

/** Places where many are have calm colours, odd ones a loud one. */
export function by_class(cell, is_odd, is_dark) {
  if (cell === UNREAD) return is_dark ? [30, 37, 45] : [240, 243, 246];
  if (cell === ABSENT) return is_dark ? [15, 19, 24] : [255, 255, 255];
  if (cell === UNREADABLE) return [190, 140, 0];
  if (cell === SILENT) return is_dark ? [120, 128, 136] : [140, 148, 156];
  if (is_odd) return is_dark ? [255, 90, 100] : [205, 20, 45];
  const hue = (205 + cell * 137.5) % 360;
  // Nothing near the loud one.
  const calm = hue < 35 || hue > 325 ? (hue + 90) % 360 : hue;
  return from_hsl(calm, 0.42, (is_dark ? 0.42 : 0.62) + (cell % 3) * 0.06);
}

export function by_step(step, least, most, is_dark) {
  if (step === null) return is_dark ? [48, 58, 69] : [208, 215, 222];
  const behind = most > least ? (most - step) / (most - least) : 0;
  return from_hsl(205 - behind * 205, 0.35 + behind * 0.5, is_dark ? 0.45 : 0.6 - behind * 0.12);
}

function from_hsl(hue, saturation, light) {
  const part = (n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (light - saturation * Math.min(light, 1 - light) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [part(0), part(8), part(4)];
}

/** Where no rank is there any more: a way back to when they were. */
export function back(data, cells, column, choose) {
  const has_some = (row) => row.some((cell) => cell >= 0);
  if (has_some(cells[column])) return [];
  const last = cells.slice(0, column).findLastIndex(has_some);
  if (last < 0) return [];
  const button = element("button", "", `show ${clock(data.columns[last])}, when ranks were last seen`);
  button.type = "button";
  button.addEventListener("click", () => choose(data.columns[last]));
  return [button];
}

/** Who is where at an instant, the odd ones first, and since when all of them are there. */
export function table(data, cells, steps, column, odd) {
  const groups = new Map();
  cells[column].forEach((cell, rank) => {
    if (!groups.has(cell)) groups.set(cell, []);
    groups.get(cell).push(rank);
  });
  const is_dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const rows = [...groups].sort((one, other) => (odd.has(other[0]) - odd.has(one[0])) || other[1].length - one[1].length);
  const body = rows.slice(0, ROWS).map(([cell, members]) => {
    const swatch = element("span", "swatch");
    swatch.style.background = `rgb(${by_class(cell, odd.has(cell), is_dark).join(" ")})`;
    const counted = members.map((rank) => steps[column]?.[rank] ?? null).filter((step) => step !== null);
    const step = counted.length === 0 ? "" : Math.min(...counted) === Math.max(...counted) ? String(counted[0]) : `${Math.min(...counted)} to ${Math.max(...counted)}`;
    return element("tr", "",
      element("td", "", swatch, " ", name(data, cell)),
      named("", "ranks", ranges(members.map((rank) => data.ranks[rank]))),
      named("number", "how many", String(members.length)),
      named("number", "step", step),
      named("", "there since (UTC)", since(data, cells, column, cell, members)));
  });
  const head = element("thead", "", element("tr", "", element("th", "", "place"), element("th", "", "ranks"), element("th", "number", "how many"), element("th", "number", "step"), element("th", "", "there since (UTC)")));
  const made = element("table", "folding", head, element("tbody", "", ...body));
  if (rows.length > ROWS) made.append(element("caption", "quiet", `and ${rows.length - ROWS} more places`));
  return made;
}

/** A cell that says what it is where it does not stand below its heading. */
function named(className, name, words) {
  const made = element("td", className, words);
  made.dataset.name = name;
  return made;
}

export function name(data, cell) {
  if (cell === UNREAD) return "not read yet";
  if (cell === ABSENT) return "not there";
  if (cell === UNREADABLE) return "its snapshot cannot be read";
  if (cell === SILENT) return "silent: its node has stored nothing lately";
  return element("code", "", data.classes[cell]);
}

function since(data, cells, column, cell, members) {
  if (cell < 0 && cell !== SILENT) return "";
  let first = column;
  while (first > 0 && members.every((rank) => cells[first - 1][rank] === cell)) first -= 1;
  if (first === column) return column === 0 ? clock(data.columns[0]) : `after ${clock(data.columns[column - 1])}`;
  return `${first === 0 ? "the first look, " : ""}${clock(data.columns[first])}`;
}

/** `0-2,5` */
export function ranges(numbers) {
  const parts = [];
  for (let index = 0; index < numbers.length; index += 1) {
    const first = index;
    while (index + 1 < numbers.length && numbers[index + 1] === numbers[index] + 1) index += 1;
    parts.push(first === index ? `${numbers[first]}` : `${numbers[first]}${index - first > 1 ? "-" : ","}${numbers[index]}`);
  }
  return parts.join(",");
}
