// Runs before the page is painted, so that a chosen theme does not flash. It is a classic script for that reason.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("nsq-theme");
  } catch {
    // Storage may be forbidden; then the system decides.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
