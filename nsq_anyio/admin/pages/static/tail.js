// The live tail: shows messages as they come, the latest first, and no more than a browser can hold.
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

let source = null;
let permit = "";
let isPaused = false;
let isOver = false;
let waiting = [];

const matches = (item) => item.textContent.toLowerCase().includes(filter.value.trim().toLowerCase());

function tell() {
  const hidden = list.querySelectorAll(":scope > [hidden]").length;
  const parts = [];
  if (isPaused) parts.push(waiting.length === MOST ? `${MOST} or more new ones wait` : `${waiting.length} new ones wait`);
  if (hidden) parts.push(`${hidden} do not match`);
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
  const items = [...template.content.children];
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

function open() {
  isOver = false;
  source = new EventSource(section.dataset.stream + (permit && `?permit=${encodeURIComponent(permit)}`));
  source.addEventListener("messages", (event) => receive(event.data));
  source.addEventListener("state", (event) => tellState(event.data));
  source.addEventListener("over", () => {
    isOver = true;
    close();
    tell();
  });
  source.addEventListener("error", () => {
    state.textContent = "The connection is lost. Trying again …";
    // Browsers do not reconnect after an answer that is not a stream.
    if (source?.readyState === EventSource.CLOSED) {
      close();
      setTimeout(() => { if (!document.hidden && source === null) open(); }, 5000);
    }
  });
}

function close() {
  source?.close();
  source = null;
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
  else if (source === null && !isOver) open();
});
addEventListener("pagehide", close);
addEventListener("pageshow", (event) => { if (event.persisted && source === null) open(); });

for (const element of [pause, clear, filter]) element.hidden = false;
state.textContent = "Connecting …";
tell();
if (!document.hidden) open();
