// Searching as you type. The search field stays as it is while polls replace the rest; so what else the query has,
// such as the sorting, is taken from the address of the page.
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
  // A chosen filter or column may have changed what is searched for as well.
  addEventListener("popstate", () => {
    const field = document.getElementById("q");
    if (field) field.value = new URLSearchParams(location.search).get("q") ?? "";
  });
}
