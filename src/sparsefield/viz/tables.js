// This script sorts a table by the column whose head is clicked.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, k) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[k].dataset.value ?? row.cells[k].textContent;
      const numbers = [...body.rows].every((row) => value(row) === "" || !Number.isNaN(Number(value(row))));
      const compare = (p, q) => numbers ? Number(value(p)) - Number(value(q)) : value(p).localeCompare(value(q));
      body.append(...[...body.rows].sort((p, q) => (down ? -1 : 1) * compare(p, q)));
    });
  });
}
