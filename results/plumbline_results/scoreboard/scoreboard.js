"use strict";
// The page is whole without this: it adds the filter and the choice of light or dark.
const all = (choice) => Array.from(document.querySelectorAll(choice));
const filter = document.getElementById("filter");
const only = document.getElementById("only");
const rows = all("tr.row").map((row) => ({row, words: row.textContent.toLowerCase()}));

function show() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const {row, words: text} of rows) {
    row.hidden = (only.checked && !row.dataset.disagrees) || !words.every((word) => text.includes(word));
  }
  for (const part of all("details.profile")) {
    const found = part.querySelector("tr.row:not([hidden])") !== null;
    part.hidden = !found;
    if (found && (words.length || only.checked)) part.open = true;
  }
}

document.querySelector(".filter").hidden = false;
document.querySelector(".filter").addEventListener("submit", (event) => event.preventDefault());
filter.addEventListener("input", show);
only.addEventListener("input", show);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target === filter) { filter.value = ""; show(); filter.blur(); return; }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.key === "/") { event.preventDefault(); filter.focus(); }
  if (event.key === "t") {
    const chosen = document.documentElement.dataset.theme;
    const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  }
});
document.querySelector(".keys").hidden = false;
