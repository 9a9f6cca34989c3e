// The scripts of all pages. They are optional: without scripts, links and forms work.
import { startCharts } from "./charts.js";
import { startCounter } from "./counter.js";
import { startDialog } from "./dialog.js";
import { startKeyboard } from "./keyboard.js";
import { startListing } from "./listing.js";
import { startLive } from "./live.js";
import { startTheme } from "./theme-choice.js";
import { showTimes } from "./times.js";

// A poll morphs the page. Elements with the attribute data-keep stay unchanged: charts and input fields.
Idiomorph.defaults.callbacks.beforeNodeMorphed = (old) => !(old.nodeType === Node.ELEMENT_NODE && old.hasAttribute("data-keep"));

document.querySelector(".tools").hidden = false;
startTheme();
startKeyboard();
startListing();
startLive();
startDialog();
startCharts();
startCounter(Number(document.documentElement.dataset.interval));
showTimes(document.body);

// After a swap, times are in UTC again. This runs before the page is painted.
document.body.addEventListener("htmx:afterSwap", () => showTimes(document.body));
document.body.addEventListener("htmx:oobAfterSwap", () => showTimes(document.body));

