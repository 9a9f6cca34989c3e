// The list of dead letters, with a button that selects all letters or none.
document.body.addEventListener("click", (event) => {
  const button = event.target.closest("[data-all]");
  if (button === null) return;
  const boxes = [...document.getElementById(button.dataset.all).querySelectorAll("input[type=checkbox]")];
  const wanted = boxes.some((box) => !box.checked);
  for (const box of boxes) box.checked = wanted;
});
// Requests of polls and running jobs name the shown list, so that the answer brings a newer one, if any.
document.body.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.target.id === "live") detail.headers["X-Shown-List"] = document.getElementById("list-version").dataset.version;
});
// Refusals are shown in the form's own place for them.
document.body.addEventListener("htmx:beforeSwap", (event) => {
  if (!["letters-problem", "letters-refused"].includes(event.detail.target.id)) return;
  event.detail.shouldSwap = true;
  event.detail.isError = false;
});
document.body.addEventListener("close-dialog", () => document.getElementById("dialog").close());
