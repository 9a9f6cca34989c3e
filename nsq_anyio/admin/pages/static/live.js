// One stream of events per page; each poll of the cluster fetches the live parts again, by hx-trigger="poll from:body".
//
// Browsers open only six connections to a server that speaks HTTP/1.1. So a hidden page gives up its stream.
const GIVE_UP_AFTER = 10_000;

export function startLive() {
  // The subject of an open page may be deleted. Then the server's explanation replaces the content.
  document.body.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.target.id !== "live" || ![403, 404, 503].includes(detail.xhr.status)) return;
    detail.shouldSwap = detail.xhr.getResponseHeader("Content-Type").startsWith("text/html");
    detail.isError = !detail.shouldSwap;
  });

  const connection = document.getElementById("connection");
  let source = null;
  let last = 0;
  let hiding = 0;

  const say = (text) => {
    if (connection.textContent !== text) connection.textContent = text;
    document.body.classList.toggle("stale", text !== "");
  };
  const open = () => {
    source = new EventSource(`${document.documentElement.dataset.root}/events`);
    source.addEventListener("poll", (event) => {
      const { number } = JSON.parse(event.data);
      say("");
      // The first event is for the snapshot that the page shows, unless the page waited in the background.
      if (number !== last) htmx.trigger(document.body, "poll");
      last = number;
    });
    source.addEventListener("error", () => {
      say("Connection lost: what you see is getting old. Trying again …");
      // Browsers do not reconnect after an answer that is not a stream.
      if (source.readyState === EventSource.CLOSED) setTimeout(reopen, 5000);
    });
  };
  const close = () => {
    source?.close();
    source = null;
  };
  const reopen = () => {
    if (document.hidden) return;
    close();
    open();
  };
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(close, GIVE_UP_AFTER);
    else if (source === null) open();
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => {
    if (event.persisted) reopen();
  });
  if (!document.hidden) open();
}
