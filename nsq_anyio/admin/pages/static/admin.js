// What pages do in the browser. All of it is an addition: without scripts, pages are read and searched by links and forms.
import { startKeyboard } from "./keyboard.js";
import { startLive } from "./live.js";
import { startTheme } from "./theme-choice.js";
import { showTimes } from "./times.js";

document.querySelector(".tools").hidden = false;
startTheme();
startKeyboard();
startLive();
showTimes(document.body);

// After a swap, times are UTC again; this runs before the page is painted.
document.body.addEventListener("htmx:afterSwap", () => showTimes(document.body));
document.body.addEventListener("htmx:oobAfterSwap", () => showTimes(document.body));

// A poll asks for what the page shows now: its query changes with the search and the sorting.
document.body.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.elt.id === "live") event.detail.path = location.pathname + location.search;
});

// What is loaded into the dialog opens it; a form in it closes it with method="dialog".
const dialog = document.getElementById("dialog");
document.body.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.id === "dialog-content" && !dialog.open) dialog.showModal();
});
// Actions answer with the header HX-Trigger: acted; the page is fetched again at once.
document.body.addEventListener("acted", () => htmx.trigger(document.body, "poll"));
