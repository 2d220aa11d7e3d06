// A button that switches between light and dark; folded parts open for links to them, and on paper.
"use strict";
(() => {
  const root = document.documentElement,
    KEY = "sparsefield-theme";
  const isDark = () =>
    (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  try {
    const known = localStorage.getItem(KEY);
    if (known) root.dataset.theme = known;
  } catch {
    /* a sandboxed frame has no storage */
  }
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain theme";
  const label = () => {
    button.textContent = isDark() ? "\u2600 Light" : "\u263e Dark";
    button.setAttribute("aria-label", isDark() ? "Switch to light colors" : "Switch to dark colors");
  };
  const changed = () => {
    label();
    dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(KEY, root.dataset.theme);
    } catch {
      /* as above */
    }
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  label();
  (document.querySelector("nav") || document.querySelector("main")).append(button);
  // The address holds the state of the view, so links to sections scroll without changing it.
  for (const link of document.querySelectorAll('nav a[href^="#"]')) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const target = document.getElementById(link.hash.slice(1));
      if (target.tagName === "DETAILS") target.open = true;
      target.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    });
  }
  addEventListener("beforeprint", () =>
    document.querySelectorAll("details").forEach((part) => {
      part.open = true;
    }),
  );
})();
