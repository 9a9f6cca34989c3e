// The large charts, drawn from /history. Each poll fetches the data of all charts again, in one request.
import { describe, drawTable } from "./chart-text.js";

const NAMES = {
  depth: "depth", in_flight: "in flight", deferred: "deferred",
  ingress: "ingress", egress: "egress", requeued: "requeued", timed_out: "timed out",
};
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
// Means of many messages need no decimals.
const exact = { format: (value) => (value >= 100 ? whole : fine).format(value) };
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const minutes = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function startCharts() {
  const section = document.querySelector("[data-history]");
  if (!section || typeof uPlot === "undefined") return;
  const figures = [...section.querySelectorAll("[data-measures]")];
  const spans = section.querySelector(".spans");
  const table = section.querySelector(".as-table");
  let span = Number(sessionStorage.getItem("nsq-span")) || 3600;
  let history = null;
  let plots = [];

  const columns = (measures) => {
    const from = Date.now() / 1000 - span;
    const first = history.times.findIndex((time) => time >= from);
    const start = first < 0 ? history.times.length : first;
    return [history.times.slice(start), ...measures.map((name) => history[name].slice(start))];
  };
  const draw = () => {
    for (const plot of plots) plot.destroy();
    plots = figures.map((figure) => makePlot(figure, columns(measuresOf(figure)), () => span));
    say();
  };
  const say = () => {
    for (const figure of figures) describe(figure, columns(measuresOf(figure)), measuresOf(figure).map((name) => NAMES[name]), exact);
    if (table.open) drawTable(table.querySelector(".scroll"), history, NAMES, exact, Date.now() / 1000 - span);
  };
  const load = async () => {
    let reply;
    try {
      reply = await fetch(section.dataset.history);
    } catch {
      return; // #connection reports the failure.
    }
    if (!reply.ok) return;
    const isFirst = history === null;
    history = await reply.json();
    if (isFirst) return draw();
    figures.forEach((figure, index) => plots[index].setData(columns(measuresOf(figure))));
    say();
  };

  spans.hidden = false;
  table.hidden = false;
  const press = () => {
    for (const button of spans.children) button.setAttribute("aria-pressed", String(Number(button.dataset.span) === span));
  };
  spans.addEventListener("click", (event) => {
    const chosen = Number(event.target.dataset?.span);
    if (!chosen) return;
    span = chosen;
    sessionStorage.setItem("nsq-span", String(span));
    press();
    if (history) draw();
  });
  table.addEventListener("toggle", () => history && say());
  document.body.addEventListener("poll", load);
  document.body.addEventListener("theme", () => history && draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => history && draw());
  press();
  load();
}

const measuresOf = (figure) => figure.dataset.measures.split(" ");

function makePlot(figure, data, span) {
  const place = figure.querySelector(".plot");
  const readout = figure.querySelector(".readout");
  const measures = measuresOf(figure);
  const strokes = [colour("--accent"), colour("--second")];
  const axis = { stroke: colour("--muted"), font: "11px system-ui", grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const plot = new uPlot({
    width: Math.max(place.clientWidth, 160),
    height: place.clientHeight,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, sync: { key: "nsq" } },
    scales: {
      x: { range: (self) => between(self.data[0][0], span()) },
      y: { range: (_, low, high) => [0, high > 0 ? high * 1.08 : 1] },
    },
    axes: [
      { ...axis, size: 24, space: 70, values: timeLabels },
      { ...axis, size: 46, space: 34, values: (_, ticks) => ticks.map((tick) => compact.format(tick)) },
    ],
    series: [
      {},
      ...measures.map((name, index) => ({
        label: NAMES[name],
        stroke: strokes[index],
        width: 1.5,
        fill: index === 0 ? colour("--accent-soft") + "88" : undefined,
        spanGaps: false,
        points: { show: (self) => self.data[0].length < 3, size: 4 },
      })),
    ],
    hooks: { setCursor: [(self) => read(self, measures, readout)], setData: [(self) => read(self, measures, readout)] },
  }, data, place);
  read(plot, measures, readout);
  new ResizeObserver(() => {
    if (place.clientWidth && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height: place.clientHeight });
  }).observe(place);
  place.tabIndex = 0;
  place.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    const count = plot.data[0].length;
    if (step === undefined || !count) return;
    event.preventDefault();
    const at = Math.min(Math.max((plot.cursor.idx ?? count - 1) + step, 0), count - 1);
    plot.setCursor({ left: plot.valToPos(plot.data[0][at], "x"), top: 0 });
  };
  return plot;
}

// Shows values beside the title: the values under the cursor, or else the latest.
function read(plot, measures, place) {
  const count = plot.data[0].length;
  if (!count) {
    place.textContent = "nothing recorded yet";
    return;
  }
  const chosen = plot.cursor?.idx;
  const at = chosen ?? count - 1;
  const texts = measures.map((name, index) => {
    const value = plot.data[index + 1][at];
    return `${measures.length > 1 ? `${NAMES[name]} ` : ""}${value == null ? "–" : exact.format(value)}`;
  });
  const parts = texts.map((text) => Object.assign(document.createElement("span"), { className: "value", textContent: text }));
  if (chosen != null) parts.unshift(document.createTextNode(clock.format(plot.data[0][at] * 1000)));
  place.replaceChildren(...parts);
}

// The axis begins with the history, so that a new history is not drawn as a speck at the right.
function between(first, span) {
  const now = Date.now() / 1000;
  return [Math.max(now - span, Math.min(first ?? 0, now - 300)), now];
}

function timeLabels(_, ticks) {
  return ticks.map((tick) => minutes.format(tick * 1000));
}
