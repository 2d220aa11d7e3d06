// This script adds a button that switches between light and dark, and opens folded parts that a link leads to.
// It has no ampersand and no less-than sign, so that pages are well-formed XML as well.
"use strict";
(() => {
  const root = document.documentElement, KEY = "sparsefield-theme";
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const remember = (theme) => { try { localStorage.setItem(KEY, theme); } catch { /* a sandboxed frame has no storage */ } };
  try { const known = localStorage.getItem(KEY); if (known) root.dataset.theme = known; } catch { /* as above */ }

  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain theme";
  const label = () => {
    button.textContent = isDark() ? "\u2600 Light" : "\u263e Dark";
    button.setAttribute("aria-label", isDark() ? "Switch to light colors" : "Switch to dark colors");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    remember(root.dataset.theme);
    label();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();
  (document.querySelector("nav") || document.querySelector(".alone .buttons") || document.querySelector("main")).append(button);

  const open = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const folded = target?.closest("details:not([open])");
    if (folded) { folded.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", open);
  for (const link of document.querySelectorAll('nav a[href^="#"]')) link.addEventListener("click", () => setTimeout(open));
  open();
  // Paper has no buttons: everything that is folded is printed.
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
})();
