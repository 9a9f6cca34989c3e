// The dialog of actions. It opens at once, and says that it waits for the servers. It explains all kinds of errors.
// When it closes, the focus returns to its former place.
export function startDialog() {
  const dialog = document.getElementById("dialog");
  const content = document.getElementById("dialog-content");
  const progress = document.createElement("p");
  progress.setAttribute("role", "status");
  progress.className = "dialog-progress";
  dialog.append(progress);
  let opener = null; // the button that opened it
  let asking = null; // the element outside of the dialog whose request is under way
  let acting = false; // whether a form was sent and not answered yet

  const focus = () => (content.querySelector("[autofocus]") ?? content.querySelector("h2"))?.focus();
  const open = () => {
    if (!dialog.open) dialog.showModal();
  };
  const say = (title, text) => {
    const heading = document.createElement("h2");
    heading.id = "dialog-title";
    heading.tabIndex = -1;
    heading.textContent = title;
    const paragraph = document.createElement("p");
    paragraph.textContent = text;
    const close = document.createElement("button");
    close.type = "button";
    close.textContent = "Close";
    close.dataset.close = "";
    const buttons = document.createElement("div");
    buttons.className = "dialog-buttons";
    buttons.append(close);
    content.replaceChildren(heading, paragraph, buttons);
    open();
    heading.focus();
  };
  const end = () => {
    asking = null;
    acting = false;
    progress.textContent = "";
    dialog.removeAttribute("aria-busy");
  };
  const isOurs = (event) => event.detail.target === content;

  document.body.addEventListener("htmx:beforeRequest", (event) => {
    if (!isOurs(event)) return;
    const { elt } = event.detail;
    acting = elt.tagName === "FORM";
    if (!dialog.contains(elt)) {
      opener = asking = elt;
      say("One moment", "The servers are asked what this affects.");
    } else {
      progress.textContent = acting ? "The servers are told …" : "The servers are asked …";
    }
    dialog.setAttribute("aria-busy", "true");
  });
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (!isOurs(event)) return;
    const { xhr } = event.detail;
    const wasActing = acting;
    end();
    // A dialog that was closed before the question came stays closed. The result of an action is always shown.
    event.detail.shouldSwap = (dialog.open || wasActing) && xhr.responseText.includes('id="dialog-title"');
    event.detail.isError = false;
    if (!event.detail.shouldSwap && (dialog.open || wasActing)) {
      say("This did not work", `The dashboard answered with the status ${xhr.status}. Reload the page and try again.`);
    }
  });
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (!isOurs(event)) return;
    open();
    focus();
  });
  for (const failure of ["htmx:sendError", "htmx:timeout"]) {
    document.body.addEventListener(failure, (event) => {
      if (!isOurs(event)) return;
      const text = acting
        ? "The dashboard did not answer. It may have acted all the same: look at the page before you try again."
        : "The dashboard did not answer. Try again in a moment.";
      end();
      say("No answer", text);
    });
  }
  document.body.addEventListener("htmx:sendAbort", (event) => {
    if (isOurs(event)) end();
  });

  dialog.addEventListener("click", (event) => {
    if (event.target.closest("[data-close]")) dialog.close();
  });
  dialog.addEventListener("close", () => {
    if (asking) htmx.trigger(asking, "htmx:abort");
    if (!acting) content.replaceChildren();
    // A poll may have replaced the button meanwhile.
    const back = opener?.isConnected ? opener : opener && document.getElementById(opener.id);
    (back ?? document.getElementById("main")).focus();
  });

  // Actions answer with the header HX-Trigger: acted, on which the page reloads at once. Actions also hasten the next
  // poll, on which the page reloads again.
  document.body.addEventListener("acted", () => htmx.trigger(document.body, "poll"));
}
