"use strict";
// Tables sort by the column whose heading is pressed; a second press turns the order round.
for (const button of document.querySelectorAll("table.sortable th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement;
    const column = [...head.parentElement.children].indexOf(head);
    const body = head.closest("table").tBodies[0];
    const rising = head.getAttribute("aria-sort") === "descending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const key = (row) => {
      const cell = row.children[column];
      return "number" in cell.dataset ? Number(cell.dataset.number) : cell.textContent;
    };
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (typeof x === "number" && typeof y === "number") return x - y;
      // What has no number comes first in rising order, as the least.
      if (typeof x === "number") return 1;
      if (typeof y === "number") return -1;
      return x.localeCompare(y, undefined, { numeric: true });
    };
    const rows = [...body.rows].sort(order);
    if (!rising) rows.reverse();
    body.append(...rows);
  });
}

const cases = [...document.querySelectorAll("details.case")];
const find = document.getElementById("find");
if (find) {
  const words = cases.map((each) => each.textContent.toLowerCase());
  find.addEventListener("input", () => {
    const wanted = find.value.trim().toLowerCase();
    let shown = 0;
    cases.forEach((each, n) => {
      each.hidden = !words[n].includes(wanted);
      if (!each.hidden) shown += 1;
    });
    document.getElementById("shown").textContent = wanted ? `${shown} of ${cases.length}` : "";
  });
  const set = (open) => () => cases.forEach((each) => { if (!each.hidden) each.open = open; });
  document.getElementById("open").addEventListener("click", set(true));
  document.getElementById("close").addEventListener("click", set(false));
}
addEventListener("beforeprint", () => cases.forEach((each, n) => { if (n < 20) each.open = true; }));
