// The page within a client of MCP (MCP Apps, SEP-1865): what it shows are resources, which it asks the client to read.
"use strict";

const APP = "ui://codequarry/page";
const PROTOCOL = "2026-01-26";
const PATIENCE_MS = 500; // the client says which search the page belongs to; without one it opens empty
const sent = new Map();
const visited = [];
let canRead = false;
let opened = false;
let requests = 0;
let asked = 0; // pages that were asked for: an answer that comes after the next question is not shown

function tell(method, params) {
  parent.postMessage({ jsonrpc: "2.0", method, params }, "*");
}

function request(method, params) {
  const id = ++requests;
  return new Promise((resolve, reject) => {
    sent.set(id, { resolve, reject });
    parent.postMessage({ jsonrpc: "2.0", id, method, params }, "*");
  });
}

async function read(address) {
  if (!canRead) throw new Error("this client does not let the page read from the server");
  const result = await request("resources/read", { uri: APP + address });
  return result.contents[0].text;
}

async function show(address) {
  const [uri, anchor] = address.split("#");
  const main = document.querySelector("main");
  const number = ++asked;
  try {
    const page = new DOMParser().parseFromString(await read(uri), "text/html");
    if (number !== asked) return;
    main.replaceChildren(...page.querySelector("main").childNodes);
  } catch (error) {
    if (number !== asked) return;
    const message = Object.assign(document.createElement("p"), { className: "error", textContent: error.message });
    main.replaceChildren(message);
  }
  (anchor && document.getElementById(anchor) || main).scrollIntoView();
}

globalThis.clientPages = {
  read,
  go(address) {
    opened = true;
    clearTimeout(waiting); // of a search that follows what is typed
    if (asking) asking.abort();
    visited.push(address);
    document.querySelector("#back").disabled = visited.length < 2;
    return show(address);
  },
  fail(error) {
    const results = document.querySelector("#results");
    if (results) results.textContent = error.message;
  },
  keep(address) {
    visited[visited.length - 1] = address;
  },
};

const FILTERS = { repos: "repo", include: "path", symbols: "symbol", kinds: "kind" }; // else the same in an address
const OPTIONS = { query: "q", top_k: "limit", limit: "limit", channel: "channel", scope_id: "scope" };

function searchOf(given) {
  const address = new URLSearchParams();
  for (const [name, value] of Object.entries(given ?? {})) {
    if (OPTIONS[name]) address.append(OPTIONS[name], value);
  }
  for (const [name, values] of Object.entries(given?.filters ?? {})) {
    for (const value of [values].flat()) address.append(FILTERS[name] ?? name, value);
  }
  return "/?" + address;
}

function adapt({ theme }) {
  if (theme) document.documentElement.style.colorScheme = theme;
}

const TOLD = {
  "ui/notifications/tool-input": ({ arguments: given }) => clientPages.go(searchOf(given)),
  "ui/notifications/host-context-changed": adapt,
};
const ASKED = { ping: () => ({}), "ui/resource-teardown": () => ({}) };

addEventListener("message", ({ source, data }) => {
  if (source !== parent || data?.jsonrpc !== "2.0") return;
  if (!data.method) {
    const answered = sent.get(data.id);
    sent.delete(data.id);
    if (data.error) answered?.reject(new Error(data.error.message));
    else answered?.resolve(data.result);
  } else if (data.id === undefined) {
    TOLD[data.method]?.(data.params ?? {});
  } else {
    const answer = ASKED[data.method];
    const error = { code: -32601, message: "the page does not answer this" };
    parent.postMessage({ jsonrpc: "2.0", id: data.id, ...(answer ? { result: answer() } : { error }) }, "*");
  }
});

document.addEventListener("click", (event) => {
  if (event.target.closest("#back")) {
    visited.pop();
    clientPages.go(visited.pop());
  } else if (event.target.closest("form button")) {
    send(event);
  }
  const link = event.target.closest("a[href]");
  if (!link) return;
  event.preventDefault();
  const address = link.getAttribute("href");
  if (address.startsWith("#")) document.getElementById(address.slice(1))?.scrollIntoView();
  else clientPages.go(address);
});

// Clients that keep frames in a sandbox let them submit no form.
function send(event) {
  const form = event.target.closest("form");
  event.preventDefault();
  clientPages.go(`${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("form input")) send(event);
});

new ResizeObserver(() => {
  tell("ui/notifications/size-changed", { height: Math.ceil(document.documentElement.getBoundingClientRect().height) });
}).observe(document.documentElement);

request("ui/initialize", {
  appInfo: { name: "codequarry", version: "1" },
  appCapabilities: {},
  protocolVersion: PROTOCOL,
}).then(({ hostCapabilities, hostContext }) => {
  canRead = Boolean(hostCapabilities?.serverResources);
  adapt(hostContext ?? {});
  tell("ui/notifications/initialized", {});
  setTimeout(() => opened || clientPages.go("/"), PATIENCE_MS);
});
