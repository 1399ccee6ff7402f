// Parts of the page that the server makes: asked for again when the instant changes.

/** The query of this page's address, with what `more` adds or (where it is null) takes away. */
export function address(more = {}) {
  return written(new URLSearchParams(location.search), more);
}

/** The same for what is asked for: of the run that this page is of, also when another one has begun since. */
export function query(more = {}) {
  const all = new URLSearchParams(document.querySelector("[data-run]")?.dataset.run);
  for (const [name, value] of new URLSearchParams(location.search)) all.set(name, value);
  return written(all, more);
}

function written(all, more) {
  for (const [name, value] of Object.entries(more)) {
    if (value === null || value === undefined) all.delete(name);
    else all.set(name, value);
  }
  const text = all.toString();
  return text ? `?${text}` : "";
}

/** A JSON document, or an error with the server's words. */
export async function document_(name, more = {}, signal = undefined) {
  const answer = await fetch(`api/v1/${name}${query(more)}`, { signal });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.hint ? `${body.error} (${body.hint})` : body.error);
  return body;
}

const asked = new Map();
/** What cannot be had now is asked for again after so long, milliseconds: a store that went away may come back. */
export const RETRY = 5000;

/** Asks for the part that belongs into `section`. */
export async function refresh(section) {
  const name = section.dataset.part;
  asked.get(name)?.abort();
  const control = new AbortController();
  asked.set(name, control);
  section.classList.add("busy");
  section.setAttribute("aria-busy", "true");
  let is_had = false;
  try {
    const answer = await fetch(`part/${name}${query()}`, { signal: control.signal });
    const text = await answer.text();
    put(section, text);
    is_had = answer.status < 500;
    section.dispatchEvent(new CustomEvent("part", { bubbles: true }));
  } catch (error) {
    if (error.name === "AbortError") return;
    say(section, "taskscope does not answer; is it still running?");
  }
  if (asked.get(name) !== control) return;
  section.classList.remove("busy");
  section.removeAttribute("aria-busy");
  if (!is_had) setTimeout(() => asked.get(name) === control && refresh(section), RETRY);
}

/** What stands in a section, as the server has said it. */
const shown = new WeakMap();

/** Puts `text` into a section. Where only links are others, as while a job stands, nothing else is touched. */
function put(section, text) {
  const shape = (html) => html?.replace(/ href="[^"]*"/g, "");
  if (shape(shown.get(section)) === shape(text)) {
    const made = document.createElement("template");
    made.innerHTML = text;
    const links = made.content.querySelectorAll("a");
    section.querySelectorAll("a").forEach((link, index) => link.setAttribute("href", links[index].getAttribute("href")));
  } else {
    keeping(section, () => { section.innerHTML = text; });
  }
  shown.set(section, text);
}

/** Changes what is in `place`, and keeps what a person has unfolded, where it is scrolled to, and what has the focus. */
export function keeping(place, change) {
  const folds = () => keyed(place.querySelectorAll("details > summary"), (it) => it.textContent.replace(/\d+/g, "#"));
  const stops = () => keyed(place.querySelectorAll("a[href], button, summary, [tabindex]"), stop);
  const open = new Set([...folds()].filter(([, it]) => it.parentElement.open).map(([name]) => name));
  const scrolled = [...place.querySelectorAll("[tabindex]")].map((it) => [it.scrollTop, it.scrollLeft]);
  const [focused] = [...stops()].find(([, it]) => it === document.activeElement) ?? [];
  const made = change();
  for (const [name, summary] of folds()) if (open.has(name)) summary.parentElement.open = true;
  place.querySelectorAll("[tabindex]").forEach((it, index) => it.scrollTo?.(scrolled[index]?.[1] ?? 0, scrolled[index]?.[0] ?? 0));
  if (focused) stops().get(focused)?.focus({ preventScroll: true });
  return made;
}

/** What can have the focus, by what stays the same of it when the instant is another. */
function stop(it) {
  if (it.tagName !== "A") return it.tagName + it.textContent.replace(/\d+/g, "#").slice(0, 80);
  const [path, query_] = it.getAttribute("href").split("?");
  const rest = new URLSearchParams(query_);
  rest.delete("at");
  return `${path}?${rest}`;
}

/** Elements by name; of those that have the same, each has its number. */
function keyed(elements, name) {
  const counts = new Map(), all = new Map();
  for (const it of elements) {
    const same = name(it), count = counts.get(same) ?? 0;
    counts.set(same, count + 1);
    all.set(`${count} ${same}`, it);
  }
  return all;
}

/** Puts words in the place of a part. */
export function say(place, words) {
  const line = document.createElement("p");
  line.className = "trouble";
  line.setAttribute("role", "status");
  line.textContent = words;
  place.replaceChildren(line);
  shown.delete(place);
}

/** `1.5 GiB` */
export function bytes(count) {
  if (count === null || count === undefined) return "unknown";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit += 1; }
  return `${unit === 0 ? count : count.toPrecision(3)} ${units[unit]}`;
}

/** Microseconds since 1970 as a time that the server reads back exactly. */
export function iso(microseconds) {
  const seconds = Math.floor(microseconds / 1e6);
  const rest = String(microseconds - seconds * 1e6).padStart(6, "0");
  return new Date(seconds * 1000).toISOString().replace(".000Z", `.${rest}Z`);
}

/** For people. */
export function clock(microseconds) {
  return new Date(microseconds / 1000).toISOString().slice(0, 19).replace("T", " ");
}

/** Numbers of which all but the first are differences. */
export function summed(differences) {
  let sum = 0;
  return differences.map((difference) => (sum += difference));
}

/** The place of the last number that is not larger, in ascending ones; -1 where all are. */
export function before(numbers, number) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= number) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
