// The server's clock, which charts use, and by which figures are old. The browser's may be wrong by minutes.
const seconds = () => performance.now() / 1000;
let ahead = -Infinity; // of `seconds`

export const serverNow = () => seconds() + ahead;

// Takes a time of the server. Without an exact one, the clock shows at least the latest time.
export function hear(time, isExact = false) {
  ahead = isExact ? time - seconds() : Math.max(ahead, time - seconds());
}
