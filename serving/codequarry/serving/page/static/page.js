// The page works without this: search as one types, keys, and names in code as links.
"use strict";

const form = document.querySelector("form.search");
const results = document.querySelector("#results");

if (form && results) {
  let waiting = 0;
  let asking = null;
  const ask = async () => {
    if (asking) asking.abort();
    asking = new AbortController();
    const address = "/?" + new URLSearchParams(new FormData(form));
    try {
      const answer = await fetch(address + "&part=results", { signal: asking.signal });
      if (answer.status === 429) return;
      results.innerHTML = await answer.text();
      history.replaceState(null, "", address);
    } catch (error) {
      if (error.name !== "AbortError") form.submit();
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(ask, 150);
  });
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "/" && !typing) {
    const field = document.querySelector("input[name=q]");
    if (field) {
      field.focus();
      field.select();
      event.preventDefault();
    } else {
      location.href = "/";
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

const code = document.querySelector("pre[data-uri]");
if (code) {
  code.classList.add("linked");
  code.addEventListener("click", (event) => {
    const name = event.target.closest(".n, .d");
    if (!name || String(getSelection())) return;
    const line = name.closest(".l");
    const text = line.querySelector(".t");
    let before = "";
    for (const node of text.childNodes) {
      if (node === name) break;
      before += node.textContent;
    }
    const column = new TextEncoder().encode(before).length;
    const place = `${code.dataset.uri}:${line.id.slice(1)}:${column + 1}`;
    location.href = "/symbol?" + new URLSearchParams({ at: place });
  });
}
