// The page of a run: one instant, which everything follows.
import { RETRY, address, before, clock, document_, iso, keeping, query, refresh, say, summed } from "./parts.js";
import { draw as draw_time } from "./timeline.js";
import { draw as draw_ranks } from "./matrix.js";
import { draw as draw_nodes } from "./nodes.js";

const place = (id) => document.getElementById(id);
/** While something is still being read, it is asked for again after so long. */
const AGAIN = 300, CALM = 60;
/** A first paint is waited for so long, milliseconds. */
const UNPAINTED = 250;

const state = {
  /** Times of the node's snapshots, microseconds. */
  times: [],
  /** The chosen time; null follows the newest. */
  at: null,
  colour: "place",
  shape: "time",
  show_time: () => {},
  show_ranks: () => {},
  timeline: null,
  ranks: null,
};

function newest() {
  return state.times[state.times.length - 1] ?? 0;
}

/** Moves to a time at once; what the server has to make follows when the hand rests. */
function choose(time) {
  const index = Math.max(0, before(state.times, time));
  const at = state.times[index];
  if (at === undefined) return;
  const follows = time >= newest();
  state.at = follows ? null : at;
  history.replaceState(null, "", address({ at: follows ? null : iso(at) }) || location.pathname);
  compare();
  show();
  clearTimeout(choose.later);
  // A hand that comes back after a while is not on its way anywhere else: nothing waits.
  const is_calm = performance.now() - choose.last > 4 * CALM;
  choose.last = performance.now();
  choose.later = setTimeout(refresh_parts, is_calm ? 0 : CALM);
}
choose.last = -Infinity;

function show() {
  const at = state.at ?? newest();
  const slider = place("instant");
  slider.max = String(Math.max(0, state.times.length - 1));
  slider.value = String(Math.max(0, before(state.times, at)));
  slider.disabled = state.times.length < 2;
  slider.setAttribute("aria-valuetext", `${clock(at)} UTC`);
  for (const id of ["as-of", "instant-at"]) {
    place(id).textContent = `${clock(at)} UTC`;
    place(id).dateTime = iso(at);
  }
  place("live").hidden = state.at !== null;
  place("newest").setAttribute("aria-pressed", String(state.at === null));
  state.show_time(at);
  state.show_ranks(at);
}

function refresh_parts() {
  for (const section of document.querySelectorAll("[data-part]")) refresh(section);
}

function step(by) {
  const index = before(state.times, state.at ?? newest()) + by;
  const time = state.times[Math.min(state.times.length - 1, Math.max(0, index))];
  if (time !== undefined) choose(time);
}

async function read_time() {
  try {
    const data = await document_("timeline", { at: null });
    state.times = summed(data.snapshots);
    state.timeline = data;
    const chosen = new URLSearchParams(location.search).get("at");
    if (!read_time.is_done && chosen && chosen !== "latest") state.at = chosen_time(chosen);
    // The page may be a moment older than this.
    const is_old = !read_time.is_done && state.at === null && chosen_time(place("as-of").dateTime) !== data.to;
    if (!read_time.is_done) follow(data.to);
    read_time.is_done = true;
    state.show_time = keeping(place("timeline"), () => draw_time(place("timeline"), data, choose));
    show();
    if (is_old) refresh_parts();
    if (data.missing > 0) setTimeout(read_time, AGAIN);
  } catch (error) {
    say(place("timeline"), error.message);
    setTimeout(read_time, RETRY);
  }
}

/** A time, or the time in a snapshot's id. */
function chosen_time(text) {
  const id = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)\.(\d{6})Z/.exec(text);
  const [, seconds, rest] = id
    ? [0, `${id[1]}-${id[2]}-${id[3]}T${id[4]}:${id[5]}:${id[6]}Z`, id[7]]
    : [0, text.replace(/\.\d+Z$/, "Z"), (/\.(\d+)Z$/.exec(text)?.[1] ?? "").padEnd(6, "0").slice(0, 6)];
  const at = Date.parse(seconds) * 1000 + Number(rest);
  return Number.isNaN(at) ? null : at;
}

async function read_ranks() {
  try {
    state.ranks = await document_("ranks", { at: null, node: null });
    draw_matrix();
    if (state.ranks.missing > 0) setTimeout(read_ranks, AGAIN);
  } catch (error) {
    say(place("ranks"), error.message);
    setTimeout(read_ranks, RETRY);
  }
}

function draw_matrix() {
  if (!state.ranks) return;
  const draw = state.shape === "node" ? draw_nodes : draw_ranks;
  keeping(place("ranks"), () => {
    state.show_ranks = draw(place("ranks"), state.ranks, state.colour, choose);
    state.show_ranks(state.at ?? newest());
  });
}

/** What came since the time that is known is read again; who looks at the past stays there. */
function follow(known) {
  const events = new EventSource(`events${query({ at: iso(known) })}`);
  events.addEventListener("change", (event) => {
    place("snapshots").textContent = JSON.parse(event.data).snapshots;
    read_time();
    read_ranks();
    if (state.at === null) refresh_parts();
  });
}

/** What is wrong is said again only where it is something else. */
document.addEventListener("part", ({ target }) => {
  if (target.dataset.part !== "verdict") return;
  const words = [".state", ".summary"].map((it) => target.querySelector(it)?.textContent ?? "").join(": ");
  if (place("said").textContent !== words) place("said").textContent = words;
});
place("earlier").addEventListener("click", () => step(-1));
place("later").addEventListener("click", () => step(1));
place("newest").addEventListener("click", () => choose(Infinity));
place("instant").addEventListener("input", (event) => choose(state.times[Number(event.target.value)]));
/** What stacks are compared with, as a parameter that stays in the address. */
function compare() {
  const index = before(state.times, state.at ?? newest());
  const at = { before: state.times[Math.max(0, index - 1)], first: state.times[0] }[place("with").value];
  history.replaceState(null, "", address({ with: at === undefined ? null : iso(at) }) || location.pathname);
}
place("with").addEventListener("change", () => {
  compare();
  refresh(document.querySelector("[data-part=stacks]"));
});
/** Two sets of ranks that are compared instead. */
for (const [name, id] of [["ranks", "ranks-of"], ["against", "ranks-against"]]) {
  place(id).value = new URLSearchParams(location.search).get(name) ?? "";
  place(id).addEventListener("change", (event) => {
    history.replaceState(null, "", address({ [name]: event.target.value.trim() || null }) || location.pathname);
    refresh(document.querySelector("[data-part=stacks]"));
  });
}
place("colour").addEventListener("change", (event) => { state.colour = event.target.value; draw_matrix(); });
place("shape").addEventListener("change", (event) => { state.shape = event.target.value; draw_matrix(); });
place("node")?.addEventListener("change", (event) => {
  history.replaceState(null, "", address({ node: event.target.value }));
  read_time();
  refresh_parts();
});
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
  if (by !== undefined && event.key.startsWith("Arrow")) { step(by); event.preventDefault(); }
  if (event.key === "Home" && event.target === document.body) { choose(state.times[0]); event.preventDefault(); }
  if (event.key === "End" && event.target === document.body) { choose(Infinity); event.preventDefault(); }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw_matrix);
addEventListener("resize", () => { if (state.shape === "node") draw_matrix(); });

/** What has to be asked for would only delay the first paint. A page that is not painted, behind others, does not wait for it. */
const painted = new Promise((done) => {
  requestAnimationFrame(() => setTimeout(done));
  setTimeout(done, UNPAINTED);
});
painted.then(() => {
  for (const section of document.querySelectorAll("[data-late]")) refresh(section);
  read_time();
  read_ranks();
});
