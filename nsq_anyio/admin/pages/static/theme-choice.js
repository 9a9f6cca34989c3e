// The button that chooses between the system's colours, light and dark.
const ORDER = ["system", "light", "dark"];
const SIGNS = { system: "◐", light: "☀", dark: "☾" };

export function startTheme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const show = () => {
    const chosen = root.dataset.theme ?? "system";
    button.textContent = SIGNS[chosen];
    button.setAttribute("aria-label", `Colours: ${chosen === "system" ? "as the system" : chosen}`);
    button.title = button.getAttribute("aria-label");
  };
  button.addEventListener("click", () => {
    const next = ORDER[(ORDER.indexOf(root.dataset.theme ?? "system") + 1) % ORDER.length];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      if (next === "system") localStorage.removeItem("nsq-theme");
      else localStorage.setItem("nsq-theme", next);
    } catch {
      // Storage may be forbidden; then the choice lasts as long as the page.
    }
    document.body.dispatchEvent(new Event("theme"));
    show();
  });
  show();
}
