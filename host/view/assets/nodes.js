// Ranks by node at the chosen instant: a box a rank, each node's together.
import { before } from "./parts.js";
import { element } from "./timeline.js";
import { back, by_class, by_step, name, odds, opened, spread, table, unread } from "./matrix.js";

/** A box with the gap beside it, a line of words, room for the name of a node; pixels. */
const BOX = 13, LINE = 15, NAME = 130;
/** Of more nodes than this, none has a line of its own. */
const MANY = 64;
/** Ranks elsewhere than most that are named below the picture. */
const NAMED = 8;
/** Narrower than this, the name of a node stands above its boxes. */
const NARROW = 560;

/** Draws `data` into `place`. Returns what shows another instant. */
export function draw(place, data, colour, choose) {
  const drawing = opened(place, data);
  if (!drawing) return () => {};
  const { canvas, cells, ranks, steps, words } = drawing;
  const pointed = element("p", "quiet");
  place.replaceChildren(element("div", "boxes", canvas), pointed, ...unread(data), words);
  const boxes = layout(data, place.clientWidth);
  let column = 0;
  canvas.addEventListener("pointermove", (event) => {
    const rank = boxes.places.findIndex(([x, y]) => x <= event.offsetX && event.offsetX < x + BOX && y <= event.offsetY && event.offsetY < y + BOX);
    if (rank < 0) return;
    pointed.replaceChildren(`rank ${data.ranks[rank]} on ${data.nodes[boxes.node_of[rank]]}: `, name(data, cells[column][rank]));
  });
  return (at) => {
    column = Math.max(0, before(data.columns, at));
    const odd = odds(cells[column]);
    paint(canvas, data, boxes, cells[column], steps[column] ?? [], odd, colour);
    const behind = [...cells[column].keys()].filter((rank) => odd.has(cells[column][rank]));
    const where = behind.slice(0, NAMED).map((rank) => `rank ${data.ranks[rank]} on ${data.nodes[boxes.node_of[rank]]}`);
    if (behind.length > NAMED) where.push(`${behind.length - NAMED} more`);
    pointed.textContent = `${where.length > 0 ? `elsewhere than most: ${where.join(", ")}; ` : ""}point at a box to see which rank it is`;
    canvas.setAttribute("aria-label", `${ranks} ranks on ${data.nodes.length} nodes, ${behind.length} of them elsewhere than most; the table tells who is where`);
    words.replaceChildren(table(data, cells, steps, column, odd), ...back(data, cells, column, choose));
  };
}

/** Where the box of each rank is, and the name of each node. */
function layout(data, width) {
  const node_of = spread(data.node_of, data.ranks.length);
  const has_lines = data.nodes.length <= MANY, is_narrow = width < NARROW;
  const left = has_lines && !is_narrow ? NAME : 0;
  const members = data.nodes.map(() => []);
  node_of.forEach((node, rank) => members[node].push(rank));
  const places = [], names = [];
  let x = left, y = 0;
  members.forEach((ranks, node) => {
    if (ranks.length === 0) return;
    if (has_lines) {
      if (is_narrow) { names.push([0, y, node]); y += LINE; x = 0; } else names.push([0, y, node]);
    }
    for (const rank of ranks) {
      if (x + BOX > width && x > left) { x = left; y += BOX; }
      places[rank] = [x, y];
      x += BOX;
    }
    if (has_lines) { x = left; y += BOX + 3; } else x += BOX / 2;
  });
  return { node_of, places, names, width, height: y + BOX + 2 };
}

function paint(canvas, data, boxes, row, steps, odd, colour) {
  const scale = devicePixelRatio || 1;
  canvas.width = boxes.width * scale;
  canvas.height = boxes.height * scale;
  canvas.style.height = `${boxes.height}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const is_dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const known = steps.filter((step) => step !== null);
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const css = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;
  row.forEach((cell, rank) => {
    const [x, y] = boxes.places[rank];
    const by_progress = colour === "progress" && cell >= 0;
    context.fillStyle = css(by_progress ? by_step(steps[rank] ?? null, least, most, is_dark) : by_class(cell, odd.has(cell), is_dark));
    context.fillRect(x + 1, y + 1, BOX - 2, BOX - 2);
    if (!odd.has(cell)) return;
    context.strokeStyle = is_dark ? "#ffffff" : "#1b1f24";
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, BOX - 2, BOX - 2);
  });
  context.fillStyle = getComputedStyle(canvas).color;
  context.font = "12px system-ui, sans-serif";
  for (const [x, y, node] of boxes.names) context.fillText(data.nodes[node], x, y + 11, NAME - 6);
}
