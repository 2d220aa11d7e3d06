/* The network fills its place again after a change of the window's size. */
(function () {
  let wait = null;
  window.addEventListener("resize", function () {
    window.clearTimeout(wait);
    wait = window.setTimeout(function () {
      const network = document.getElementById("network");
      const graph = network && network._cyreg ? network._cyreg.cy : null;
      if (graph) { graph.resize(); graph.fit(undefined, 24); }
    }, 200);
  });
})();

/* The address and the colors of the page, which only the browser knows. */
window.dash_clientside = Object.assign({}, window.dash_clientside, {
  sparsefield: {
    write_address: function (view) {
      if (typeof view === "string") {
        const plain = window.location.pathname + window.location.search;
        window.history.replaceState(window.history.state, "", view ? plain + "#" + view : plain);
      }
      return window.dash_clientside.no_update;
    },
    choose_theme: function (clicks) {
      const root = document.documentElement;
      let theme = null;
      try { theme = window.localStorage.getItem("sparsefield-theme"); } catch (error) { /* storage may be refused */ }
      if (clicks) {
        theme = root.dataset.theme === "dark" ? "light" : "dark";
        try { window.localStorage.setItem("sparsefield-theme", theme); } catch (error) { /* then it is not kept */ }
      }
      if (theme !== "dark" && theme !== "light") {
        theme = window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
      }
      root.dataset.theme = theme;
      return theme;
    },
  },
});
