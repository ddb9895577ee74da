// Sort a table with the class "sortable" by a click on the head of a column: numbers by value, largest first, texts by alphabet.
"use strict";

function value(row, column) {
  const text = row.cells[column].textContent.trim().replace(/−/g, "-");
  const number = parseFloat(text);
  if (!Number.isNaN(number)) return number;
  return text === "–" ? null : text.toLowerCase();
}

function compare(a, b, direction) {
  if (a === null || b === null) return (a === null) - (b === null); // what was not measured is last
  if (typeof a === "number" && typeof b === "number") return direction * (a - b);
  return direction * String(a).localeCompare(String(b));
}

document.querySelectorAll("table.sortable").forEach((table) => {
  table.querySelectorAll("thead th").forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const rows = [...table.tBodies[0].rows];
      const numbers = rows.some((row) => typeof value(row, column) === "number");
      const order = head.getAttribute("aria-sort") || (numbers ? "ascending" : "descending");
      const direction = order === "ascending" ? -1 : 1;
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
      rows.sort((a, b) => compare(value(a, column), value(b, column), direction));
      table.tBodies[0].append(...rows);
    });
  });
});
