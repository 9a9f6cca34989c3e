// The live tail: shows messages as they come, the latest first, and no more than a browser can hold.
import { Stream } from "./stream.js";
import { showTimes } from "./times.js";

const MOST = 300;

const section = document.getElementById("tail");
const list = document.getElementById("messages");
const state = document.getElementById("tail-state");
const pause = document.getElementById("tail-pause");
const clear = document.getElementById("tail-clear");
const filter = document.getElementById("tail-filter");
const count = document.getElementById("tail-count");
const empty = document.getElementById("tail-empty");

let stream = null;
let permit = "";
let isPaused = false;
let isOver = false;
let waiting = [];
let cleared = new Set(); // the keys of messages that are not shown again

const matches = (item) => item.textContent.toLowerCase().includes(filter.value.trim().toLowerCase());

function tell() {
  const hidden = list.querySelectorAll(":scope > [hidden]").length;
  const parts = [];
  if (isPaused) parts.push(waiting.length === MOST ? `${MOST} or more new` : `${waiting.length} new`);
  if (hidden) parts.push(`${hidden} hidden by the filter`);
  count.textContent = parts.join(", ");
  empty.hidden = isOver || list.children.length > 0;
}

function show(items) {
  for (const item of items) item.hidden = !matches(item);
  list.prepend(...items);
  // A message stays as long as its details are open.
  const old = [...list.children].slice(MOST);
  for (const item of old) if (!item.querySelector("details[open]")) item.remove();
  tell();
}

function receive(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  // A connection that is made again begins with messages that the one before may have passed.
  const known = new Set([...waiting, ...list.children].map((item) => item.dataset.key));
  const items = [...template.content.children].filter(({ dataset: { key } }) => !known.has(key) && !cleared.has(key));
  showTimes(template.content);
  if (isPaused) {
    waiting = [...items, ...waiting].slice(0, MOST);
    tell();
  } else show(items);
}

function tellState(html) {
  state.innerHTML = html;
  htmx.process(state);
}

function hear(kind, data) {
  if (kind === "messages") receive(data);
  else if (kind === "state") tellState(data);
  else if (kind === "lost") state.textContent = "The connection is lost. Trying again …";
  else if (kind === "over") {
    isOver = true;
    close();
    tell();
  }
}

function open() {
  isOver = false;
  stream = new Stream(section.dataset.stream + (permit && `?permit=${encodeURIComponent(permit)}`), ["messages", "state", "over"], hear);
  stream.open();
}

function close() {
  stream?.close();
  stream = null;
}

pause.addEventListener("click", () => {
  isPaused = !isPaused;
  pause.setAttribute("aria-pressed", String(isPaused));
  pause.textContent = isPaused ? "Go on" : "Pause";
  if (!isPaused) {
    const items = waiting;
    waiting = [];
    show(items);
  }
  tell();
});
clear.addEventListener("click", () => {
  cleared = new Set([...waiting, ...list.children].map((item) => item.dataset.key));
  list.replaceChildren();
  waiting = [];
  tell();
});
filter.addEventListener("input", () => {
  for (const item of list.children) item.hidden = !matches(item);
  tell();
});
state.addEventListener("htmx:beforeSwap", (event) => {
  event.detail.shouldSwap = true;
  event.detail.isError = false;
});
// A viewer who has confirmed that waiting messages are consumed gets a token.
state.addEventListener("htmx:afterSwap", () => {
  const given = state.querySelector("[data-permit]");
  if (given === null) return;
  permit = given.dataset.permit;
  close();
  open();
});
// A hidden page has no consumer.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) close();
  else if (stream === null && !isOver) open();
});
addEventListener("pagehide", close);
addEventListener("pageshow", (event) => { if (event.persisted && stream === null && !isOver) open(); });

for (const element of [pause, clear, filter]) element.hidden = false;
state.textContent = "Connecting …";
tell();
if (!document.hidden) open();
