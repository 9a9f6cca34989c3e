// Search as you type. The search field stays while polls replace the rest. So the rest of the query, such as the
// sorting, is taken from the page's address.
export function startListing() {
  document.body.addEventListener("htmx:configRequest", (event) => {
    const { elt, parameters } = event.detail;
    if (elt.id === "live") {
      event.detail.path = location.pathname + location.search;
    } else if (elt.id === "search") {
      const now = new URLSearchParams(location.search);
      for (const name of ["sort", "filter"]) {
        if (now.has(name)) parameters[name] = now.get(name);
        else delete parameters[name];
      }
      if (!parameters.q) delete parameters.q;
    }
  });
  // Going back in the history may change the search text, too.
  addEventListener("popstate", () => {
    const field = document.getElementById("q");
    if (field) field.value = new URLSearchParams(location.search).get("q") ?? "";
  });
}
