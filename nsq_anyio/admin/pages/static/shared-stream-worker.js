// The stream of the dashboard's events that all windows of a browser share. It is open as long as a window wants it.
import { hear, serverNow } from "./server-clock.js";
import { Stream } from "./stream.js";

const windows = new Set();
const last = new Map(); // the data of the last event, by kind

const stream = new Stream(self.name, ["poll"], (kind, data) => {
  if (kind === "alive") hear(JSON.parse(data).time, true);
  if (kind !== "lost") last.delete("lost");
  last.set(kind, data);
  for (const port of windows) port.postMessage([kind, data]);
});

self.onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data === "close") {
      windows.delete(port);
      if (windows.size) return;
      stream.close();
      last.clear();
    } else if (!windows.size) {
      windows.add(port);
      stream.open();
    } else {
      // A window that comes later learns what the others know.
      windows.add(port);
      if (last.has("alive")) port.postMessage(["alive", JSON.stringify({ ...JSON.parse(last.get("alive")), time: serverNow() })]);
      for (const kind of ["poll", "lost"]) if (last.has(kind)) port.postMessage([kind, last.get(kind)]);
    }
  };
};
