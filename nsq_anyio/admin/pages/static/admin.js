// What pages do in the browser. All of it is an addition: without scripts, pages are read and searched by links and forms.
import { startDialog } from "./dialog.js";
import { startKeyboard } from "./keyboard.js";
import { startLive } from "./live.js";
import { startTheme } from "./theme-choice.js";
import { showTimes } from "./times.js";

document.querySelector(".tools").hidden = false;
startTheme();
startKeyboard();
startLive();
startDialog();
showTimes(document.body);

// After a swap, times are UTC again; this runs before the page is painted.
document.body.addEventListener("htmx:afterSwap", () => showTimes(document.body));
document.body.addEventListener("htmx:oobAfterSwap", () => showTimes(document.body));

// A poll asks for what the page shows now: its query changes with the search and the sorting.
document.body.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.elt.id === "live") event.detail.path = location.pathname + location.search;
});
