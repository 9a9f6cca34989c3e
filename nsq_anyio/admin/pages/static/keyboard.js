// Keyboard shortcuts outside of text fields: / searches, g and a letter go to a page, ? lists the shortcuts.
const PAGES = { o: "/", t: "/topics", n: "/nodes", l: "/lookup", c: "/counter" };
const PATIENCE = 1500;

export function startKeyboard() {
  const shortcuts = document.getElementById("shortcuts");
  let pressedAt = -Infinity;
  document.getElementById("help").addEventListener("click", () => shortcuts.showModal());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (typing) {
      if (event.key === "Escape" && typing.type === "search" && typing.value === "") typing.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    const follows = event.timeStamp - pressedAt < PATIENCE;
    pressedAt = -Infinity;
    if (follows && event.key in PAGES) {
      location.assign(document.documentElement.dataset.root + PAGES[event.key]);
    } else if (event.key === "g") {
      pressedAt = event.timeStamp;
    } else if (event.key === "?") {
      shortcuts.showModal();
    } else if (event.key === "/") {
      const field = document.querySelector("input[type=search]");
      if (!field) return;
      event.preventDefault();
      field.select();
    }
  });
}
