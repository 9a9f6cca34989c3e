// A window's part in the stream that all windows of a browser share, in the way of a `Stream`. It receives "broken" if
// the worker cannot be loaded.
//
// Browsers open only six connections to a server that speaks HTTP/1.1. With a stream for each, six windows would use
// them all up, and no window could load anything. A shared worker needs no leader among the windows, none of which may
// be frozen then; and unlike locks, it is there without HTTPS, too.
export class SharedStream {
  #port;

  constructor(url, receive) {
    // The worker's name is the stream that it opens.
    const worker = new SharedWorker(new URL("shared-stream-worker.js", import.meta.url), { type: "module", name: url });
    worker.addEventListener("error", () => receive("broken", ""));
    this.#port = worker.port;
    this.#port.onmessage = ({ data: [kind, data] }) => receive(kind, data);
  }

  open() {
    this.#port.postMessage("open");
  }

  close() {
    this.#port.postMessage("close");
  }
}
