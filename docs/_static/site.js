// Code that is wider than its box scrolls; without a mouse that needs the focus.
const reachable = () => {
  for (const box of document.querySelectorAll(".highlight pre, .table-wrapper")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
    } else {
      box.removeAttribute("tabindex");
    }
  }
};
addEventListener("load", reachable);
addEventListener("resize", reachable);
