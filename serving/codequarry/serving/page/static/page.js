// The page works without this: search as one types, keys, and names in code as links.
"use strict";

// Where pages come from: the server here; app.js, which is read before this, asks the client of MCP.
const pages = globalThis.clientPages ?? {
  go: (address) => { location.href = address; },
  fail: (error, address) => { location.href = address; },
  keep: (address) => history.replaceState(null, "", address),
  read: async (address, signal) => {
    const answer = await fetch(address, { signal });
    return answer.status === 429 ? null : answer.text();
  },
};
document.documentElement.classList.add("scripted");

let waiting = 0;
let asking = null;

async function searchAgain(form) {
  if (asking) asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  const address = "/?" + new URLSearchParams(new FormData(form));
  try {
    const found = await pages.read(address + "&part=results", signal);
    const results = document.querySelector("#results");
    if (found === null || signal.aborted || !results) return;
    results.innerHTML = found;
    pages.keep(address);
  } catch (error) {
    if (!signal.aborted) pages.fail(error, address);
  }
}

document.addEventListener("input", (event) => {
  const form = event.target.closest("form.search");
  if (!form || !document.querySelector("#results")) return;
  clearTimeout(waiting);
  waiting = setTimeout(searchAgain, 150, form);
});

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing) {
    const field = document.querySelector("input[name=q]");
    if (field) {
      field.focus();
      field.select();
      event.preventDefault();
    } else {
      pages.go("/");
    }
  } else if (event.key === "Escape" && typing) {
    event.target.blur();
  } else if ((event.key === "j" || event.key === "k") && !typing && !event.ctrlKey && !event.metaKey) {
    const places = [...document.querySelectorAll("a.to")];
    const now = places.indexOf(document.activeElement);
    const next = places[Math.max(0, Math.min(places.length - 1, now + (event.key === "j" ? 1 : -1)))];
    if (next) next.focus();
  }
});

document.addEventListener("click", (event) => {
  const name = event.target.closest("pre[data-uri] .n, pre[data-uri] .d");
  if (!name || String(getSelection())) return;
  const line = name.closest(".l");
  const text = line.querySelector(".t");
  let before = "";
  for (const node of text.childNodes) {
    if (node === name) break;
    before += node.textContent;
  }
  const column = new TextEncoder().encode(before).length;
  const place = `${name.closest("pre").dataset.uri}:${line.id.slice(1)}:${column + 1}`;
  pages.go("/symbol?" + new URLSearchParams({ at: place }));
});
