// The list of dead letters: selects all of them, or none.
document.body.addEventListener("click", (event) => {
  const button = event.target.closest("[data-all]");
  if (button === null) return;
  const boxes = [...document.getElementById(button.dataset.all).querySelectorAll("input[type=checkbox]")];
  const wanted = boxes.some((box) => !box.checked);
  for (const box of boxes) box.checked = wanted;
});
// What is fetched for a poll or a running job brings another list, if there is one.
document.body.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.target.id === "live") detail.headers["X-Shown-List"] = document.getElementById("list-version").dataset.version;
});
// A refusal is shown where the form has its place for it.
document.body.addEventListener("htmx:beforeSwap", (event) => {
  if (!["letters-problem", "letters-refused"].includes(event.detail.target.id)) return;
  event.detail.shouldSwap = true;
  event.detail.isError = false;
});
document.body.addEventListener("close-dialog", () => document.getElementById("dialog").close());
