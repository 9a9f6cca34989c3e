// The large charts, drawn from /history. Each poll fetches the data of all charts again, in one request.
import { describe, drawTable } from "./chart-text.js";
import { failing, FETCH_TIMEOUT } from "./live.js";
import { serverNow } from "./server-clock.js";
import { clock } from "./times.js";

const NAMES = {
  depth: "depth", in_flight: "in flight", deferred: "deferred",
  ingress: "ingress", egress: "egress", requeued: "requeued", timed_out: "timed out",
};
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
// Means of many messages need no decimals.
const exact = { format: (value) => (value >= 100 ? whole : fine).format(value) };
const minutes = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function startCharts() {
  if (typeof uPlot === "undefined") return;
  let charts = null;
  // A page whose subject is gone has no charts, and has new ones when it is back.
  const follow = () => {
    const section = document.querySelector("[data-history]");
    if (section === (charts?.section ?? null)) return;
    charts?.end();
    charts = section && new Charts(section);
  };
  document.body.addEventListener("htmx:afterSwap", follow);
  document.body.addEventListener("poll", () => charts?.load());
  document.body.addEventListener("theme", () => charts?.draw());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts?.draw());
  follow();
}

class Charts {
  #figures;
  #table;
  #span = keptSpan() || 3600;
  #history = null;
  #plots = [];
  #isLoading = false;
  #isOver = false;

  constructor(section) {
    this.section = section;
    this.#figures = [...section.querySelectorAll("[data-measures]")];
    this.#table = section.querySelector(".as-table");
    const spans = section.querySelector(".spans");
    const press = () => {
      for (const button of spans.children) button.setAttribute("aria-pressed", String(Number(button.dataset.span) === this.#span));
    };
    spans.addEventListener("click", (event) => {
      const chosen = Number(event.target.dataset?.span);
      if (!chosen) return;
      this.#span = chosen;
      keepSpan(chosen);
      press();
      this.draw();
    });
    this.#table.addEventListener("toggle", () => this.#say());
    spans.hidden = false;
    this.#table.hidden = false;
    press();
    this.load();
  }

  async load() {
    if (this.#isLoading) return;
    this.#isLoading = true;
    try {
      const reply = await fetch(this.section.dataset.history, { signal: AbortSignal.timeout(FETCH_TIMEOUT * 1000) });
      if (!reply.ok) throw new Error(`status ${reply.status}`);
      const history = await reply.json();
      if (this.#isOver) return;
      this.#show(history);
      failing.delete("charts");
    } catch (error) {
      if (this.#isOver) return;
      failing.add("charts"); // The page says so.
      console.info("The charts are not new:", error);
    } finally {
      this.#isLoading = false;
    }
  }

  end() {
    this.#isOver = true;
    failing.delete("charts");
    for (const plot of this.#plots) plot.destroy();
  }

  draw() {
    if (this.#history === null) return;
    for (const plot of this.#plots) plot.destroy();
    this.#plots = this.#figures.map((figure) => makePlot(figure, this.#columns(measuresOf(figure)), () => this.#span));
    this.#say();
  }

  #show(history) {
    const isFirst = this.#history === null;
    this.#history = history;
    if (isFirst) return this.draw();
    this.#figures.forEach((figure, index) => this.#plots[index].setData(this.#columns(measuresOf(figure))));
    this.#say();
  }

  #columns(measures) {
    const { times } = this.#history;
    const from = serverNow() - this.#span;
    const first = times.findIndex((time) => time >= from);
    const start = first < 0 ? times.length : first;
    return [times.slice(start), ...measures.map((name) => this.#history[name].slice(start))];
  }

  #say() {
    if (this.#history === null) return;
    for (const figure of this.#figures) describe(figure, this.#columns(measuresOf(figure)), measuresOf(figure).map((name) => NAMES[name]), exact);
    if (this.#table.open) drawTable(this.#table.querySelector(".scroll"), this.#history, NAMES, exact, serverNow() - this.#span);
  }
}

// A browser may forbid storage.
function keptSpan() {
  try {
    return Number(sessionStorage.getItem("nsq-span"));
  } catch {
    return 0;
  }
}

function keepSpan(span) {
  try {
    sessionStorage.setItem("nsq-span", String(span));
  } catch {}
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
    hooks: { setCursor: [(self) => read(self, measures, readout)], setData: [(self) => read(self, measures, readout)], destroy: [() => sizes.disconnect()] },
  }, data, place);
  read(plot, measures, readout);
  const sizes = new ResizeObserver(() => {
    if (place.clientWidth && place.clientWidth !== plot.width) plot.setSize({ width: place.clientWidth, height: place.clientHeight });
  });
  sizes.observe(place);
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
  const now = serverNow();
  return [Math.max(now - span, Math.min(first ?? 0, now - 300)), now];
}

function timeLabels(_, ticks) {
  return ticks.map((tick) => minutes.format(tick * 1000));
}
