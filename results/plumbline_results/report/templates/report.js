"use strict";
// The page is whole without this: it adds the filter, keys, copying, the choice of light or dark, and opens all for paper.
const all = (choice) => Array.from(document.querySelectorAll(choice));
const one = (id) => document.getElementById(id);
const rows = all("tr.row").map((row) => ({row, words: row.textContent.toLowerCase()}));

function show() {
  const words = one("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const tone = one("verdict").value;
  let count = 0;
  for (const {row, words: text} of rows) {
    row.hidden = !((!tone || row.dataset.tone === tone) && words.every((word) => text.includes(word)));
    if (!row.hidden) count += 1;
  }
  for (const profile of all("details.profile")) {
    const found = profile.querySelector("tr.row:not([hidden])") !== null;
    profile.hidden = !found;
    if (found && (words.length || tone)) profile.open = true;
  }
  one("shown").textContent = words.length || tone ? count + " of " + rows.length : "";
}

if (one("filter")) {
  document.querySelector(".filter").hidden = false;
  document.querySelector(".filter").addEventListener("submit", (event) => event.preventDefault());
  one("filter").addEventListener("input", show);
  one("verdict").addEventListener("input", show);
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

let at = -1;
function go(step) {
  const failures = all("#failures > details.failure");
  if (!failures.length) return;
  at = (at + step + failures.length) % failures.length;
  failures[at].open = true;
  failures[at].scrollIntoView({block: "start"});
  failures[at].querySelector("summary").focus({preventScroll: true});
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target === one("filter")) { one("filter").value = ""; show(); one("filter").blur(); return; }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.key === "/" && one("filter")) { event.preventDefault(); one("filter").focus(); }
  if (event.key === "n") go(1);
  if (event.key === "p") go(at < 0 ? 0 : -1);
  if (event.key === "t") document.documentElement.dataset.theme = isDark() ? "light" : "dark";
});
document.querySelector(".keys").hidden = false;

if (navigator.clipboard) {
  for (const button of all(".copy")) {
    button.hidden = false;
    button.addEventListener("click", () => navigator.clipboard.writeText(button.previousElementSibling.textContent)
      .then(() => { button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500); }));
  }
}

let closed = [];
addEventListener("beforeprint", () => { closed = all("details:not([open])"); for (const each of closed) each.open = true; });
addEventListener("afterprint", () => { for (const each of closed) each.open = false; });
// A link to a part of a folded list opens it.
function unfold() {
  const target = location.hash.length > 1 && one(decodeURIComponent(location.hash.slice(1)));
  for (let each = target && target.closest("details"); each; each = each.parentElement.closest("details")) each.open = true;
  if (target) target.scrollIntoView();
}
addEventListener("hashchange", unfold);
unfold();
