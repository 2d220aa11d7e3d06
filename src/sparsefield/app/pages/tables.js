// This script sorts a table by the column whose head is clicked, and offers tables as CSV files.
"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, k) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => { if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none"); });
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[k].dataset.value ?? row.cells[k].textContent;
      const numbers = [...body.rows].every((row) => value(row) === "" || !Number.isNaN(Number(value(row))));
      const compare = (p, q) => numbers ? Number(value(p)) - Number(value(q)) : value(p).localeCompare(value(q));
      body.append(...[...body.rows].sort((p, q) => (down ? -1 : 1) * compare(p, q)));
    });
  });
}

for (const table of document.querySelectorAll("table[data-name]")) {
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent.trim());
  const kept = heads.map((head, k) => (head ? k : -1)).filter((k) => k >= 0);
  const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  // A cell that only has a picture has no text; numbers have their full precision as data.
  const text = (cell) => cell.dataset.value ?? cell.textContent.trim();
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain csv";
  button.textContent = "\u2193 CSV";
  button.setAttribute("aria-label", `Download the table ${table.dataset.name} as CSV`);
  button.addEventListener("click", () => {
    const filled = kept.filter((k) => [...table.tBodies[0].rows].some((row) => !row.cells[k].querySelector("svg")));
    const lines = [filled.map((k) => quote(heads[k])), ...[...table.tBodies[0].rows].map((row) => filled.map((k) => quote(text(row.cells[k]))))];
    const blob = new Blob(["\ufeff" + lines.map((line) => line.join(",")).join("\r\n") + "\r\n"], { type: "text/csv" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${table.dataset.name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
  table.closest(".table").prepend(button);
}
