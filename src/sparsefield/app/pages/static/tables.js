// Tables are sorted by the column whose head is clicked, and can be downloaded as CSV files.
"use strict";
function download(name, parts, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
function writeCsv(lines) {
  // Spreadsheets would run a text that begins like a formula.
  const safe = (text) => (/^[=+@\t\r]/.test(text) && Number.isNaN(Number(text)) ? "'" + text : text);
  const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return "\ufeff" + lines.map((line) => line.map((cell) => quote(safe(String(cell)))).join(",")).join("\r\n") + "\r\n";
}
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells],
    body = table.tBodies[0];
  const value = (row, k) => row.cells[k].dataset.value ?? row.cells[k].textContent.trim();
  heads.forEach((head, k) => {
    head.querySelector("button")?.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => {
        if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      });
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const numbers = [...body.rows].every((row) => !Number.isNaN(Number(value(row, k))));
      const compare = (p, q) =>
        numbers ? Number(value(p, k)) - Number(value(q, k)) : value(p, k).localeCompare(value(q, k));
      body.append(...[...body.rows].sort((p, q) => (down ? -1 : 1) * compare(p, q)));
    });
  });
  const named = heads
    .map((head, k) => k)
    .filter((k) => heads[k].textContent.trim() && heads[k].textContent.trim() !== "distribution");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain csv";
  button.textContent = "\u2193 CSV";
  button.setAttribute("aria-label", `Download the table ${table.dataset.name} as CSV`);
  button.addEventListener("click", () => {
    const lines = [
      named.map((k) => heads[k].textContent.trim()),
      ...[...body.rows].map((row) => named.map((k) => value(row, k))),
    ];
    download(`${table.dataset.name}.csv`, [writeCsv(lines)], "text/csv");
  });
  table.closest(".table").prepend(button);
}
