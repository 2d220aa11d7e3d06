// The network of a field on a canvas: pan, zoom, filter, search, neighborhoods, communities, and export.
// Everything that comes from data is drawn or inserted as text, never as markup.
"use strict";
const data = JSON.parse(document.getElementById("document").textContent);
const find = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

const net = (() => {
  const canvas = find("network"),
    n = data.names.length,
    total = data.a.length;
  const largest = Math.max(...data.s, 1e-9),
    FEW = 150,
    MOST_NEAR = 60;
  const color = {};
  function readColors() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["ink", "card", "faint", "neutral", "positive", "negative", "soft", "sunken"]) {
      color[name] = style.getPropertyValue("--" + name).trim();
    }
  }
  const signColor = (sign) => [color.negative, color.neutral, color.positive][sign + 1];

  const edgesOf = Array.from({ length: n }, () => []),
    weightOf = new Float64Array(n);
  for (let e = 0; e < total; e++) {
    for (const k of new Set([data.a[e], data.b[e]])) {
      edgesOf[k].push(e);
      if (e < (data.holding || total)) weightOf[k] += data.s[e]; // edges that hold come first
    }
  }
  for (const own of edgesOf) own.sort((p, q) => data.s[q] - data.s[p] || p - q);
  const heaviest = Math.max(1e-9, ...weightOf);
  const byWeight = Array.from(weightOf.keys()).sort((p, q) => weightOf[q] - weightOf[p] || p - q);
  const numberOf = new Map(data.names.map((name, k) => [name, k]));
  const otherEnd = (e, k) => (data.a[e] === k ? data.b[e] : data.a[e]);

  // What is shown; `belief` has [direction, amount] by column where evidence is set.
  const state = {
    count: data.initial,
    chosen: -1,
    edge: -1,
    group: -1,
    signs: { 1: true, 0: true, "-1": true },
    belief: null,
    given: new Set(),
  };
  const view = { x: 0, y: 0, scale: 1 };
  let scene = null,
    pointed = -1,
    waiting = false,
    listeners = [];

  // -- scenes: which nodes are drawn, and where ---------------------------------------------------------------------

  function sceneKind() {
    if (n > FEW && state.chosen >= 0) return "near";
    if (state.group >= 0) return "group";
    return n > FEW && data.bubbles ? "bubbles" : "all";
  }

  function sceneNodes(kind) {
    if (kind === "near") {
      const near = edgesOf[state.chosen].slice(0, MOST_NEAR).map((e) => otherEnd(e, state.chosen));
      return [...new Set([state.chosen, ...near])];
    }
    if (kind === "group") return byWeight.filter((k) => data.group[k] === state.group && data.x[k] !== null);
    return kind === "bubbles" ? data.bubbles.sizes.map((_, k) => k) : Array.from({ length: n }, (_, k) => k);
  }

  // Sizes as in figures for print: short names are within circles, others below them.
  function measure(kind, nodes, width, height) {
    const room = Math.sqrt((width * height) / Math.max(nodes.length, 1)),
      size = clamp(0.2 * room, 10, 13);
    const within = clamp(0.21 * room, 10, 19),
      letter = 0.58;
    if (kind === "bubbles") {
      const most = Math.max(...data.bubbles.sizes, 1);
      return nodes.map((k) => ({
        r: clamp(0.34 * room, 10, 44) * (0.4 + 0.6 * Math.sqrt(data.bubbles.sizes[k] / most)),
        size,
        inside: false,
        text: data.bubbles.names[k].join(", "),
      }));
    }
    const fits = (k) => (1.8 * within) / (letter * data.titles[k].length) >= 8;
    const inside = nodes.filter(fits).length >= nodes.length / 2;
    return nodes.map((k) => {
      const share = Math.sqrt(weightOf[k] / heaviest),
        short = data.short[k];
      const r = inside ? within : clamp(0.13 * room, 4, 10) * (0.55 + 0.45 * share);
      return inside && fits(k)
        ? { r, size: Math.min(size + 1, (1.8 * within) / (letter * short.length)), inside: true, text: data.titles[k] }
        : { r, size, inside: false, text: short };
    });
  }

  function buildScene() {
    const box = canvas.getBoundingClientRect(),
      kind = sceneKind(),
      nodes = sceneNodes(kind);
    const looks = measure(kind, nodes, box.width, box.height);
    const start = nodes.map((k, i) => {
      if (kind === "bubbles") return [data.bubbles.x[k], data.bubbles.y[k]];
      if (kind !== "near" || k === state.chosen) return kind === "near" ? [0, 0] : [data.x[k], data.y[k]];
      const angle = (2 * Math.PI * (i - 1)) / Math.max(nodes.length - 1, 1),
        far = nodes.length > 20 && i % 2 ? 1.7 : 1;
      return [far * Math.cos(angle), far * Math.sin(angle)];
    });
    scene = { kind, nodes, looks, place: new Map(nodes.map((k, i) => [k, i])) };
    scene.spots = arrange(start, looks, box.width, box.height);
    scene.edges =
      kind === "bubbles"
        ? data.bubbles.s.map((_, e) => e)
        : data.s.map((_, e) => e).filter((e) => scene.place.has(data.a[e]) && scene.place.has(data.b[e]));
    Object.assign(view, { x: 0, y: 0, scale: 1 });
  }

  // Boxes of circles and names are moved apart, and everything is fitted into the canvas again, in turns.
  function arrange(start, looks, width, height) {
    const boxes = looks.map((look) => {
      const r = 1.27 * look.r, // with its ring
        half = look.inside ? r : Math.max(r, 0.29 * look.size * look.text.length);
      return [half, r, half, look.inside ? r : r + 1.3 * look.size];
    });
    const fit = (points) => {
      if (!points.length) return points;
      const margin = [0, 1, 2, 3].map((side) => Math.max(...boxes.map((box) => box[side])) + 6);
      const low = [0, 1].map((axis) => Math.min(...points.map((p) => p[axis])));
      const high = [0, 1].map((axis) => Math.max(...points.map((p) => p[axis])));
      const room = [Math.max(width - margin[0] - margin[2], 1), Math.max(height - margin[1] - margin[3], 1)];
      let scales = [0, 1].map((axis) => (high[axis] > low[axis] ? room[axis] / (high[axis] - low[axis]) : Infinity));
      const least = Math.min(...scales);
      scales = scales.map((scale) => (Number.isFinite(least) ? Math.min(scale, 1.6 * least) : 1));
      const middle = [(width + margin[0] - margin[2]) / 2, (height + margin[1] - margin[3]) / 2];
      return points.map((p) =>
        [0, 1].map(
          (axis) =>
            (p[axis] - (low[axis] + high[axis]) / 2) * (Number.isFinite(scales[axis]) ? scales[axis] : 1) +
            middle[axis],
        ),
      );
    };
    let points = fit(start);
    if (points.length > FEW) return points;
    for (let round = 0; round < 8; round++) {
      const before = points.map((p) => p.slice());
      separate(points, boxes, Math.max(Math.floor(4000 / Math.max(points.length, 1)), 30));
      if (points.every((p, i) => p[0] === before[i][0] && p[1] === before[i][1])) break;
      points = fit(points);
    }
    return points;
  }

  function separate(points, boxes, steps) {
    for (let step = 0; step < steps; step++) {
      let moved = false;
      for (let i = 0; i < points.length; i++) {
        for (let j = 0; j < i; j++) {
          const p = boxes[i],
            q = boxes[j];
          let dx = points[i][0] + (p[2] - p[0]) / 2 - points[j][0] - (q[2] - q[0]) / 2;
          let dy = points[i][1] + (p[3] - p[1]) / 2 - points[j][1] - (q[3] - q[1]) / 2;
          const wide = (p[0] + p[2] + q[0] + q[2]) / 2 + 8,
            tall = (p[1] + p[3] + q[1] + q[3]) / 2 + 6;
          if (Math.abs(dx) < 1e-6 && Math.abs(dy) < 1e-6) {
            dx = 1e-3 * Math.cos(2.4 * (i + j));
            dy = 1e-3 * Math.sin(2.4 * (i + j));
          }
          const reach = Math.max(Math.abs(dx) / wide, Math.abs(dy) / tall);
          if (reach > 1 - 1e-6) continue;
          const push = 0.25 * (1 / Math.max(reach, 1e-9) - 1);
          points[i][0] += push * dx;
          points[i][1] += push * dy;
          points[j][0] -= push * dx;
          points[j][1] -= push * dy;
          moved = true;
        }
      }
      if (!moved) break;
    }
  }

  const isShown = (e) =>
    state.signs[data.sign[e]] &&
    (e < state.count ||
      (state.count >= data.initial && data.tree[e]) ||
      data.a[e] === state.chosen ||
      data.b[e] === state.chosen);
  const spot = (i) => [view.x + view.scale * scene.spots[i][0], view.y + view.scale * scene.spots[i][1]];
  const grow = () => clamp(Math.sqrt(view.scale), 0.6, 1.7);

  // -- drawing, on a canvas or as SVG ---------------------------------------------------------------------------------

  class CanvasPen {
    constructor(paint) {
      this.paint = paint;
    }
    line(from, to, style) {
      const p = this.paint;
      p.beginPath();
      p.moveTo(...from);
      p.lineTo(...to);
      Object.assign(p, { lineWidth: style.width, strokeStyle: style.color, globalAlpha: style.alpha });
      p.setLineDash(style.dash ?? []);
      p.stroke();
      p.globalAlpha = 1;
      p.setLineDash([]);
    }
    circle(x, y, r, style, from = 0, to = 2 * Math.PI) {
      const p = this.paint;
      p.beginPath();
      p.arc(x, y, r, from, to);
      Object.assign(p, { fillStyle: style.fill, strokeStyle: style.stroke, lineWidth: style.width });
      if (style.fill) p.fill();
      p.stroke();
    }
    text(x, y, words, size, style) {
      const p = this.paint,
        font = `${size}px Inter, "Segoe UI", Helvetica, Arial, sans-serif`;
      Object.assign(p, { font: style.bold ? `600 ${font}` : font, textAlign: "center", textBaseline: "middle" });
      Object.assign(p, { lineJoin: "round", lineWidth: 3.5, strokeStyle: style.halo, fillStyle: style.color });
      if (style.halo) p.strokeText(words, x, y);
      p.fillText(words, x, y);
    }
  }
  class SvgPen {
    constructor(width, height) {
      this.root = this.make("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "Arial" });
    }
    make(tag, attributes, words = "") {
      const part = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) {
        if (value !== undefined) part.setAttribute(name, typeof value === "number" ? Number(value.toFixed(2)) : value);
      }
      part.textContent = words;
      return part;
    }
    line([x1, y1], [x2, y2], style) {
      const dash = style.dash?.length ? style.dash.join(" ") : undefined;
      const look = { stroke: style.color, "stroke-width": style.width, "stroke-opacity": style.alpha };
      this.root.append(this.make("line", { x1, y1, x2, y2, ...look, "stroke-dasharray": dash }));
    }
    circle(x, y, r, style, from = 0, to = 2 * Math.PI) {
      const look = { fill: style.fill ?? "none", stroke: style.stroke, "stroke-width": style.width };
      const at = (angle) => `${(x + r * Math.cos(angle)).toFixed(1)} ${(y + r * Math.sin(angle)).toFixed(1)}`;
      const d = `M${at(from)}A${r.toFixed(1)} ${r.toFixed(1)} 0 ${to - from > Math.PI ? 1 : 0} 1 ${at(to)}`;
      this.root.append(
        to - from > 6.28 ? this.make("circle", { cx: x, cy: y, r, ...look }) : this.make("path", { d, ...look }),
      );
    }
    text(x, y, words, size, style) {
      const halo = style.halo ? { stroke: style.halo, "stroke-width": 3, "paint-order": "stroke" } : {};
      const look = { fill: style.color, "font-size": size, "font-weight": style.bold ? 600 : undefined };
      this.root.append(this.make("text", { x, y: y + 0.35 * size, "text-anchor": "middle", ...look, ...halo }, words));
    }
  }

  function near() {
    const center = pointed >= 0 ? pointed : state.chosen,
      nodes = new Set(center >= 0 ? [center] : []);
    if (center >= 0) for (const e of edgesOf[center]) if (isShown(e)) nodes.add(otherEnd(e, center));
    if (state.edge >= 0) nodes.add(data.a[state.edge]).add(data.b[state.edge]);
    return { center, nodes };
  }

  function paintScene(pen) {
    if (scene.kind === "bubbles") {
      paintBubbles(pen);
      return 0;
    }
    const { center, nodes } = near(),
      shown = scene.edges.filter(isShown);
    for (const e of [...shown].reverse())
      paintEdge(
        pen,
        e,
        state.edge >= 0 ? e === state.edge : center < 0 || data.a[e] === center || data.b[e] === center,
        shown.length,
      );
    scene.nodes.forEach((k, i) => paintNode(pen, k, i, nodes.size > 0 && !nodes.has(k)));
    paintNames(pen, nodes, center);
    return shown.length;
  }

  function paintEdge(pen, e, own, many) {
    const a = spot(scene.place.get(data.a[e])),
      b = spot(scene.place.get(data.b[e])),
      share = data.s[e] / largest;
    const width = (0.7 + 6.3 * share * clamp(Math.sqrt(70 / many), 0.3, 1)) * grow(), // thinner where there are many
      dash = data.sign[e] < 0 && many < 1500 ? [2 * width + 2, width + 1.5] : [];
    const style = {
      width: e === state.edge ? width + 2 : width,
      dash,
      color: own ? signColor(data.sign[e]) : color.faint,
      alpha: own ? (many > 1500 ? 0.3 : 0.35 + 0.55 * share ** 0.6) : 0.35,
    };
    if (data.a[e] === data.b[e]) {
      pen.circle(a[0], a[1] - 14, 10, { stroke: style.color, width });
      return;
    }
    pen.line(a, b, style);
  }

  // WCAG contrast decides between dark and white text.
  const channels = (fill) => [1, 3, 5].map((k) => parseInt(fill.slice(k, k + 2), 16));
  function textOn(fill) {
    const light = channels(fill).map((value) => ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] > 0.2 ? "#1f2430" : "#ffffff";
  }
  function mix(one, two, share) {
    const other = channels(two),
      mixed = channels(one).map((value, k) => Math.round(value + (other[k] - value) * share));
    return "#" + mixed.map((value) => value.toString(16).padStart(2, "0")).join("");
  }
  function fillOf(k) {
    if (state.given.has(data.names[k])) return color.ink;
    if (!state.belief) return data.colors[data.group[k]] ?? color.neutral;
    const [direction, amount] = state.belief[data.names[k]] ?? [0, 0];
    return mix(
      color.sunken,
      direction > 0 ? color.positive : direction < 0 ? color.negative : color.neutral,
      amount ? 0.15 + 0.85 * amount : 0,
    );
  }

  function paintNode(pen, k, i, dimmed) {
    const [x, y] = spot(i),
      r = scene.looks[i].r * grow(),
      fill = dimmed ? color.faint : fillOf(k);
    if (data.ring[k] !== null && !dimmed) {
      pen.circle(x, y, 1.16 * r, { stroke: color.sunken, width: 0.22 * r });
      if (data.ring[k] > 0.005)
        pen.circle(
          x,
          y,
          1.16 * r,
          { stroke: color.soft, width: 0.22 * r },
          -Math.PI / 2,
          -Math.PI / 2 + 2 * Math.PI * Math.min(data.ring[k], 0.9999),
        );
    }
    const picked = k === state.chosen || k === pointed;
    pen.circle(x, y, r, { fill, stroke: picked ? color.ink : color.card, width: picked ? 3 : 1.2 });
  }

  // Names within circles always fit; others are drawn where there is room, those with strong edges first.
  function paintNames(pen, nodes, center) {
    const taken = [],
      zoom = grow(),
      order = scene.nodes.length > FEW ? byWeight.filter((k) => scene.place.has(k)) : [...scene.nodes];
    order.sort((p, q) => (q === center) - (p === center) || nodes.has(q) - nodes.has(p) || weightOf[q] - weightOf[p]);
    for (const k of order) {
      const i = scene.place.get(k),
        look = scene.looks[i],
        [x, y] = spot(i),
        dimmed = nodes.size > 0 && !nodes.has(k);
      if (look.inside) {
        pen.text(x, y, look.text, look.size * zoom, { color: textOn(dimmed ? color.faint : fillOf(k)) });
        continue;
      }
      const words = k === center ? data.titles[k] : look.text,
        size = look.size * clamp(zoom, 0.9, 1.2);
      const half = 0.27 * size * words.length,
        top = y + look.r * zoom * (data.ring[k] === null ? 1 : 1.25) + 2;
      const box = [x - half, top, x + half, top + size + 2];
      if (
        k !== center &&
        taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])
      )
        continue;
      taken.push(box);
      pen.text(x, top + 0.6 * size, words, size, {
        color: dimmed ? color.soft : color.ink,
        halo: color.card,
        bold: k === center,
      });
    }
  }

  function paintBubbles(pen) {
    const b = data.bubbles,
      most = Math.max(...b.s, 1e-9);
    b.s.forEach((s, e) =>
      pen.line(spot(b.a[e]), spot(b.b[e]), { width: 1 + (9 * s) / most, color: color.faint, alpha: 0.9 }),
    );
    b.sizes.forEach((size, k) => {
      const [x, y] = spot(k),
        look = scene.looks[k],
        r = look.r * grow(),
        fill = data.colors[k] ?? color.neutral;
      pen.circle(x, y, r, { fill, stroke: color.card, width: 2 });
      pen.text(x, y, size.toLocaleString("en"), clamp(0.5 * r, 9, 17), { color: textOn(fill), bold: true });
      pen.text(x, y + r + 9, look.text.length > 28 ? look.text.slice(0, 27) + "\u2026" : look.text, look.size, {
        color: color.ink,
        halo: color.card,
      });
    });
  }

  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      render();
    });
  }

  function render() {
    const box = canvas.getBoundingClientRect(),
      ratio = window.devicePixelRatio || 1;
    if (!box.width) return;
    if (!scene) buildScene();
    const [width, height] = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const paint = canvas.getContext("2d");
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, box.width, box.height);
    const drawn = paintScene(new CanvasPen(paint));
    Object.assign(canvas.dataset, { scene: scene.kind, drawn: String(drawn), nodes: String(scene.nodes.length) });
    find("shown").textContent =
      scene.kind === "bubbles"
        ? `${data.bubbles.sizes.length} communities; click to open`
        : `${drawn.toLocaleString("en")} of ${data.total.toLocaleString("en")}` +
          (data.holding !== null ? `; ${data.holding} hold` : state.count && state.count < total ? `, from ${data.s[state.count - 1].toPrecision(2)}` : "");
    find("strength").value = String(
      Math.round((1000 * Math.log(Math.max(state.count, 1))) / Math.log(Math.max(total, 2))),
    );
  }

  // -- changes of the view ---------------------------------------------------------------------------------------------

  function update(changes, rebuild = true) {
    const before = sceneKind() + state.group + (sceneKind() === "near" ? state.chosen : "");
    Object.assign(state, changes);
    if (rebuild && before !== sceneKind() + state.group + (sceneKind() === "near" ? state.chosen : "")) scene = null;
    pointed = -1;
    draw();
    for (const listener of listeners) listener();
  }
  const choose = (k) => update({ chosen: k, edge: -1 });
  const chooseEdge = (e) => update({ edge: e, chosen: -1 });

  function zoom(factor, x, y) {
    const scale = clamp(view.scale * factor, 0.4, 12),
      change = scale / view.scale;
    Object.assign(view, { x: x - change * (x - view.x), y: y - change * (y - view.y), scale });
    draw();
  }

  function hit(x, y) {
    let best = -1,
      least = Infinity;
    scene.nodes.forEach((k, i) => {
      const [a, b] = spot(i),
        gap = Math.hypot(a - x, b - y) - scene.looks[i].r * grow();
      if (gap < 6 && gap < least) {
        least = gap;
        best = k;
      }
    });
    return best;
  }
  function hitEdge(x, y) {
    if (scene.kind === "bubbles") return -1;
    let best = -1,
      least = 6;
    for (const e of scene.edges) {
      if (!isShown(e) || data.a[e] === data.b[e]) continue;
      const [p, q] = [spot(scene.place.get(data.a[e])), spot(scene.place.get(data.b[e]))],
        dx = q[0] - p[0],
        dy = q[1] - p[1];
      const along = clamp(((x - p[0]) * dx + (y - p[1]) * dy) / Math.max(dx * dx + dy * dy, 1e-9), 0, 1);
      const gap = Math.hypot(x - p[0] - along * dx, y - p[1] - along * dy);
      if (gap < least) {
        least = gap;
        best = e;
      }
    }
    return best;
  }

  function press(x, y) {
    const k = hit(x, y);
    if (scene.kind === "bubbles") {
      if (k >= 0) update({ group: k });
      return;
    }
    const e = k < 0 ? hitEdge(x, y) : -1;
    if (k >= 0) choose(k === state.chosen ? -1 : k);
    else if (e >= 0) chooseEdge(e);
    else choose(-1);
  }

  const fingers = new Map();
  let travelled = 0;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    travelled = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!scene) return;
    const now = at(event),
      was = fingers.get(event.pointerId);
    if (!was) {
      const k = scene.kind === "bubbles" ? -1 : hit(...now);
      canvas.style.cursor = hit(...now) >= 0 || hitEdge(...now) >= 0 ? "pointer" : "grab";
      if (k !== pointed) {
        pointed = k;
        draw();
      }
      return;
    }
    travelled += Math.hypot(now[0] - was[0], now[1] - was[1]);
    if (fingers.size === 2) {
      const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
      const gap = (point) => Math.max(Math.hypot(point[0] - other[0], point[1] - other[1]), 1);
      zoom(gap(now) / gap(was), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    } else {
      view.x += now[0] - was[0];
      view.y += now[1] - was[1];
      draw();
    }
    fingers.set(event.pointerId, now);
  });
  const lift = (event) => {
    if (fingers.delete(event.pointerId) && travelled < 6 && event.type === "pointerup") press(...at(event));
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => {
    if (pointed >= 0) {
      pointed = -1;
      draw();
    }
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      zoom(Math.exp(-0.0015 * event.deltaY), ...at(event));
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (event) => {
    const middle = [canvas.clientWidth / 2, canvas.clientHeight / 2],
      step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) choose(byWeight[(byWeight.indexOf(state.chosen) + step + n) % n]);
    else if (event.key === "Escape") update({ chosen: -1, edge: -1, group: -1 });
    else if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1.3 : 1 / 1.3, ...middle);
    else return;
    event.preventDefault();
  });

  find("in").addEventListener("click", () => zoom(1.3, canvas.clientWidth / 2, canvas.clientHeight / 2));
  find("out").addEventListener("click", () => zoom(1 / 1.3, canvas.clientWidth / 2, canvas.clientHeight / 2));
  find("all").addEventListener("click", () => {
    scene = null;
    update({ chosen: -1, edge: -1, group: -1 });
  });
  find("strength").addEventListener("input", () =>
    update({ count: clamp(Math.round(Math.max(total, 2) ** (find("strength").value / 1000)), 1, total) }, false),
  );
  for (const box of document.querySelectorAll("[data-sign]"))
    box.addEventListener("change", () => update({ signs: { ...state.signs, [box.dataset.sign]: box.checked } }, false));
  for (const name of data.names) {
    const option = document.createElement("option");
    option.value = name;
    find("names").append(option);
  }
  find("search").addEventListener("input", () => {
    const k = numberOf.get(find("search").value);
    if (k !== undefined) choose(k);
  });
  find("search").addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const words = find("search").value.trim().toLowerCase();
    const k = words ? data.names.findIndex((name) => name.toLowerCase().includes(words)) : -1;
    if (k >= 0) choose(k);
  });

  const dots = find("groups");
  if (new Set(data.group).size > 1) {
    data.groups.slice(0, data.colors.length).forEach((name, k) => {
      const button = document.createElement("button"),
        dot = document.createElement("i");
      button.type = "button";
      button.className = "plain group";
      button.setAttribute("aria-pressed", "false");
      dot.className = "dot";
      dot.style.background = data.colors[k];
      button.append(dot, name);
      button.addEventListener("click", () => update({ group: state.group === k ? -1 : k, chosen: -1, edge: -1 }));
      dots.append(button);
      listeners.push(() => button.setAttribute("aria-pressed", String(state.group === k)));
    });
  }
  find("ring-key").hidden = data.ring.every((share) => share === null);

  // -- export ----------------------------------------------------------------------------------------------------------

  function picture() {
    const pen = new SvgPen(Math.round(canvas.clientWidth), Math.round(canvas.clientHeight));
    paintScene(pen);
    return new XMLSerializer().serializeToString(pen.root);
  }
  const edgeList = () =>
    writeCsv([
      ["variable_a", "variable_b", "strength", "sign", "holds", "template"],
      ...data.s.map((s, e) => [
        data.names[data.a[e]],
        data.names[data.b[e]],
        s,
        data.sign[e],
        data.holding === null ? "" : e < data.holding,
        data.templates[data.t[e]] ?? "",
      ]),
    ]);
  for (const button of document.querySelectorAll("[data-export]")) {
    button.addEventListener("click", () => {
      if (button.dataset.export === "svg") download("network.svg", [picture()], "image/svg+xml");
      else if (button.dataset.export === "csv") download("edges.csv", [edgeList()], "text/csv");
      else {
        const large = document.createElement("canvas"),
          times = 3,
          paint = large.getContext("2d");
        large.width = times * canvas.clientWidth;
        large.height = times * canvas.clientHeight;
        paint.fillStyle = color.card;
        paint.fillRect(0, 0, large.width, large.height);
        paint.setTransform(times, 0, 0, times, 0, 0);
        paintScene(new CanvasPen(paint));
        large.toBlob((blob) => download("network.png", [blob], "image/png"));
      }
    });
  }

  readColors();
  addEventListener("themechange", () => {
    readColors();
    draw();
  });
  addEventListener("beforeprint", () => {
    readColors();
    scene = null;
    render();
  });
  new ResizeObserver(() => {
    scene = null;
    draw();
  }).observe(canvas);
  return {
    state,
    update,
    choose,
    chooseEdge,
    edgesOf,
    otherEnd,
    byWeight,
    numberOf,
    largest,
    draw,
    picture,
    edgeList,
    onChange: (listener) => listeners.push(listener),
  };
})();
