// Each poll of the cluster fetches the live parts of a page again, by hx-trigger="poll from:body". When that fails, for
// whatever reason, the page says that it is old.
import { hear, serverNow } from "./server-clock.js";
import { SharedStream } from "./shared-stream.js";
import { patience, Stream } from "./stream.js";
import { clock } from "./times.js";

// All in seconds.
const LEAVE_AFTER = 10; // in which a hidden page may come back
const GRACE = 2; // for a connection that is made again at once
export const FETCH_TIMEOUT = 10; // for parts of a page
const FORM_TIMEOUT = 60; // for dialogs, which ask and tell servers

// The parts of the page whose last fetch failed.
export const failing = new Set();

const seconds = () => performance.now() / 1000;
const status = () => document.getElementById("status");

// The time of the figures that the page shows; NaN if it shows none.
const shown = () => Date.parse(status().querySelector("time")?.dateTime) / 1000;

export function startLive() {
  hear(shown() || 0);
  watchFetches();

  const connection = document.getElementById("connection");
  const url = `${document.documentElement.dataset.root}/events`;
  let stream = null;
  let isJoined = false;
  let joined = 0; // when
  let heard = 0; // when an event came
  let told = 0; // when an event came, or the news that none comes
  let lost = Infinity; // since when none comes
  let within = 5;
  let interval = Number(document.documentElement.dataset.interval);
  let last = 0;
  let judged = 0; // when `judge` was called
  let hiding = 0;

  const receive = (kind, data) => {
    if (kind === "broken") return useOwn();
    told = seconds();
    if (kind === "lost") {
      lost = Math.min(lost, told);
      return;
    }
    heard = told;
    lost = Infinity;
    const event = JSON.parse(data);
    hear(event.time, kind === "alive");
    if (kind === "alive") within = event.within;
    else if (event.time !== last) {
      ({ time: last, interval } = event);
      htmx.trigger(document.body, "poll");
    }
    judge();
  };
  const useOwn = () => {
    stream.close();
    stream = new Stream(url, ["poll"], receive);
    told = seconds();
    if (isJoined) stream.open();
  };
  const judge = () => {
    const now = seconds();
    if (now > judged + 5) told = now; // Timers stand still while the computer sleeps, the worker's, too.
    judged = now;
    if (!isJoined || now < joined + GRACE) return;
    // The worker tells of each event and each failure; this one is frozen or has crashed.
    if (stream instanceof SharedStream && now > told + patience(within) + 3) useOwn();
    const isOld = now > lost + GRACE || now > heard + patience(within) + 1 || failing.size || serverNow() > shown() + 2 * interval + 15;
    const text = isOld ? `Old: nothing new since ${clock.format((shown() || serverNow()) * 1000)}, trying again` : "";
    if (connection.textContent !== text) connection.textContent = text;
    document.body.classList.toggle("stale", isOld);
  };

  const join = () => {
    clearTimeout(hiding);
    if (isJoined || document.hidden) return;
    isJoined = true;
    joined = heard = told = seconds();
    lost = Infinity;
    stream.open();
  };
  const leave = () => {
    clearTimeout(hiding);
    if (isJoined) stream.close();
    isJoined = false;
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hiding = setTimeout(leave, LEAVE_AFTER * 1000);
    else join();
  });
  for (const ending of ["pagehide", "freeze"]) addEventListener(ending, leave, true);
  for (const beginning of ["pageshow", "resume"]) addEventListener(beginning, join, true);

  try {
    stream = new SharedStream(url, receive);
  } catch {
    stream = new Stream(url, ["poll"], receive); // Not every browser has shared workers.
  }
  setInterval(judge, 1000);
  join();
}

// Only the dashboard's own answers replace the content, and no request waits for ever.
function watchFetches() {
  document.body.addEventListener("htmx:configRequest", ({ detail }) => {
    detail.timeout = (detail.target.id === "live" ? FETCH_TIMEOUT : FORM_TIMEOUT) * 1000;
  });
  // The subject of an open page may be deleted. Then the server's explanation replaces the content.
  document.body.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.target.id !== "live") return;
    detail.shouldSwap = detail.xhr.responseText.includes('id="status"');
    if (!detail.shouldSwap) {
      failing.add("page");
      return;
    }
    failing.delete("page");
    detail.isError = false;
  });
  for (const failure of ["htmx:sendError", "htmx:timeout"]) {
    document.body.addEventListener(failure, ({ detail }) => {
      if (detail.target.id === "live") failing.add("page");
    });
  }
}
