// Search in the documentation: what has all the words, in its heading or its text.
const MOST = 20, BEFORE = 32, AFTER = 60;
const input = document.getElementById("search");
const found = document.getElementById("found");
let sections = null;

async function search() {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return found.replaceChildren();
  sections ??= await (await fetch("search.json")).json();
  const has = (section) => words.every((word) => `${section.title} ${section.text}`.toLowerCase().includes(word));
  const in_title = (section) => words.every((word) => section.title.toLowerCase().includes(word));
  const hits = sections.filter(has).sort((one, other) => in_title(other) - in_title(one)).slice(0, MOST);
  const list = document.createElement("ul");
  for (const hit of hits) {
    const link = document.createElement("a");
    link.href = hit.url;
    link.textContent = hit.title;
    const at = Math.max(0, hit.text.toLowerCase().indexOf(words[0]));
    const text = document.createElement("p");
    text.className = "quiet";
    text.textContent = `…${hit.text.slice(Math.max(0, at - BEFORE), at + AFTER)}…`;
    const item = document.createElement("li");
    item.append(link, text);
    list.append(item);
  }
  const none = document.createElement("p");
  none.textContent = "nothing is found";
  found.replaceChildren(hits.length > 0 ? list : none);
}

input.addEventListener("input", search);
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, textarea")) return;
  input.focus();
  event.preventDefault();
});
