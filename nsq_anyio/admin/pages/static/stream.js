// A stream of server-sent events that does not give up.
//
// Browsers do: after an answer that is not a stream, such as a proxy's 502. And they do not notice a connection that
// passes nothing. So this watches for silence: the server says in each event `alive` how soon another event follows.
const MOST_PAUSE = 5; // seconds between two attempts

// The seconds without an event after which something is wrong.
export const patience = (within) => 2 * within + 2;

export class Stream {
  #url;
  #kinds;
  #receive;
  #source = null;
  #timer = 0;
  #patience = patience(5);
  #failures = 0;

  // Calls `receive` with the kind and the data of each event of these kinds, and with "lost" after each attempt that fails.
  constructor(url, kinds, receive) {
    this.#url = url;
    this.#kinds = ["alive", ...kinds];
    this.#receive = receive;
  }

  open() {
    this.close();
    this.#source = new EventSource(this.#url);
    for (const kind of this.#kinds) this.#source.addEventListener(kind, ({ data }) => this.#hear(kind, data));
    this.#source.addEventListener("error", () => this.#fail(MOST_PAUSE));
    // The server sends an event at once. A browser first tries the connections that it has kept, and after a hole in the
    // network each of them passes nothing. So the first attempts are short ones.
    this.#watch(Math.min(2 + this.#failures, this.#patience));
  }

  close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  #hear(kind, data) {
    this.#failures = 0;
    if (kind === "alive") this.#patience = patience(JSON.parse(data).within);
    this.#watch(this.#patience);
    this.#receive(kind, data);
  }

  #watch(limit) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#fail(0), limit * 1000);
  }

  #fail(mostPause) {
    this.close();
    // At random, so that the viewers of a server that starts again do not all come at once.
    const pause = Math.min(2 ** this.#failures++ / 2, mostPause) * (0.5 + Math.random() / 2);
    this.#timer = setTimeout(() => this.open(), pause * 1000);
    this.#receive("lost", "");
  }
}
