// Applies the chosen theme. A classic script, because it must run before the page is painted.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("nsq-theme");
  } catch {
    // Storage may be forbidden; then the system decides.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
