// What pages do in the browser. All of it is an addition: without scripts, pages are read by links and forms.
import { startCharts } from "./charts.js";
import { startCounter } from "./counter.js";
import { startKeyboard } from "./keyboard.js";
import { startListing } from "./listing.js";
import { startLive } from "./live.js";
import { startTheme } from "./theme-choice.js";
import { showTimes } from "./times.js";

// A poll morphs the page. What has the attribute data-keep stays as the browser has it: charts, and fields to type in.
Idiomorph.defaults.callbacks.beforeNodeMorphed = (old) => !(old.nodeType === Node.ELEMENT_NODE && old.hasAttribute("data-keep"));

document.querySelector(".tools").hidden = false;
startTheme();
startKeyboard();
startListing();
startLive();
startCharts();
startCounter(Number(document.documentElement.dataset.interval));
showTimes(document.body);

// After a swap, times are UTC again; this runs before the page is painted.
document.body.addEventListener("htmx:afterSwap", () => showTimes(document.body));
document.body.addEventListener("htmx:oobAfterSwap", () => showTimes(document.body));

// What is loaded into the dialog opens it; a form in it closes it with method="dialog".
const dialog = document.getElementById("dialog");
document.body.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target.id === "dialog-content" && !dialog.open) dialog.showModal();
});
// Actions answer with the header HX-Trigger: acted; the page is fetched again at once.
document.body.addEventListener("acted", () => htmx.trigger(document.body, "poll"));
