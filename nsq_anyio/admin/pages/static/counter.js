// Running totals: from one poll to the next, a number moves to its new value instead of jumping there.
const number = new Intl.NumberFormat("en");
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const first = new Map();
const shown = new Map();

export function startCounter(interval) {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const update = () => {
    document.querySelectorAll("[data-count]").forEach((element, index) => {
      const target = Number(element.dataset.count);
      const from = shown.get(index) ?? target;
      if (still.matches || document.hidden || target <= from) {
        shown.set(index, target);
        element.textContent = format(element, target);
      } else {
        run(element, index, from, target, interval * 1000);
      }
    });
    document.querySelectorAll("[data-since]").forEach((element, index) => {
      const value = Number(element.dataset.since);
      if (!first.has(index)) first.set(index, value);
      element.textContent = `+${format(element, Math.max(value - first.get(index), 0))} since you opened this page`;
    });
  };
  document.body.addEventListener("htmx:afterSwap", update);
  update();
}

function run(element, index, from, target, length) {
  const began = performance.now();
  const step = (now) => {
    if (Number(element.dataset.count) !== target || !element.isConnected) return;
    const value = Math.round(from + (target - from) * Math.min((now - began) / length, 1));
    shown.set(index, value);
    element.textContent = format(element, value);
    if (value < target) requestAnimationFrame(step);
  };
  element.textContent = format(element, from);
  requestAnimationFrame(step);
}

function format(element, value) {
  if (!("size" in element.dataset)) return number.format(value);
  let power = 0;
  while (value >= 1000 && power < UNITS.length - 1) [value, power] = [value / 1000, power + 1];
  return `${power ? value.toFixed(2) : value} ${UNITS[power]}`;
}
