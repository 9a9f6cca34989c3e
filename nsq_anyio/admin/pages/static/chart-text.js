// Charts in words and as a table, for users who do not see them.
const time = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
const MOST_ROWS = 60;

export function describe(figure, [times, ...columns], names, format) {
  const plot = figure.querySelector(".plot");
  const title = figure.querySelector("figcaption").firstChild.textContent.trim();
  const parts = names.map((name, index) => {
    const known = columns[index].filter((value) => value != null);
    if (!known.length) return `${name}: not known`;
    const [low, high] = [Math.min(...known), Math.max(...known)];
    return `${name}: ${format.format(known.at(-1))} now, between ${format.format(low)} and ${format.format(high)}`;
  });
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label", times.length ? `${title} in ${figure.dataset.unit}. ${parts.join("; ")}. Arrow keys read single values.` : `${title}: nothing recorded yet`);
}

export function drawTable(place, history, names, format, from) {
  const rows = history.times.map((_, index) => index).filter((index) => history.times[index] >= from);
  // A readable number of rows: every nth one, and the latest.
  const every = Math.ceil(rows.length / MOST_ROWS);
  const shown = rows.filter((_, index) => (rows.length - 1 - index) % every === 0).reverse();
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const name of ["time", ...Object.values(names)]) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = name;
    if (name !== "time") cell.className = "n";
    head.append(cell);
  }
  const body = table.createTBody();
  for (const index of shown) {
    const row = body.insertRow();
    row.insertCell().textContent = time.format(history.times[index] * 1000);
    for (const name of Object.keys(names)) {
      const cell = row.insertCell();
      cell.className = "n";
      const value = history[name][index];
      cell.textContent = value == null ? "–" : format.format(value);
    }
  }
  place.replaceChildren(table);
}
