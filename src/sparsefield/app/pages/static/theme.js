// Light or dark colors, as the system has them or by a button; folded parts open for links to them, and on paper.
"use strict";
(() => {
  const root = document.documentElement,
    KEY = "sparsefield-theme",
    system = matchMedia("(prefers-color-scheme: dark)"),
    button = document.createElement("button");
  let chosen = null;
  try {
    chosen = localStorage.getItem(KEY);
  } catch {
    /* a sandboxed frame has no storage */
  }
  const apply = () => {
    const dark = (chosen ?? (system.matches ? "dark" : "light")) === "dark";
    root.dataset.theme = dark ? "dark" : "light";
    button.textContent = dark ? "\u2600" : "\u263e";
    button.setAttribute("aria-label", dark ? "Switch to light colors" : "Switch to dark colors");
    dispatchEvent(new Event("themechange"));
  };
  apply(); // before anything is drawn
  system.addEventListener("change", apply);
  Object.assign(button, { type: "button", className: "plain theme" });
  button.addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      /* as above */
    }
    apply();
  });
  addEventListener("DOMContentLoaded", () => {
    (document.querySelector("nav") ?? document.querySelector("main")).append(button);
    // The address holds the state of the view, so links to sections scroll without changing it.
    for (const link of document.querySelectorAll('nav a[href^="#"]')) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        const target = document.getElementById(link.hash.slice(1));
        if (target.tagName === "DETAILS") target.open = true;
        target.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
      });
    }
  });
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => (part.open = true)));
})();
