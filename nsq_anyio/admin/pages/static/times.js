// Times come from the server in UTC; browsers know the local time.
export const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });

export function showTimes(root) {
  for (const element of root.querySelectorAll("time[data-clock], time[data-date], time[data-title]")) {
    const time = new Date(element.dateTime);
    if (Number.isNaN(time.getTime())) continue;
    element.title = full.format(time);
    if ("title" in element.dataset) continue;
    const text = "clock" in element.dataset ? clock.format(time) : full.format(time);
    if (element.textContent !== text) element.textContent = text;
  }
}
