"use strict";
// Script of a page. It reads the JSON before it and builds everything as DOM nodes.
// Text from corpora becomes text nodes and attributes, never HTML.

const UNIT = 32000; // Value of 1.0 in packed fractions.
const MARGIN = 24; // Margin of the map, in pixels.
const NEAR = 10; // Largest distance from the pointer to a dot, in pixels.
const FIRST_ROWS = 25; // Rows of a list before "Show all".
// Paths from -1 to 1 for dots and legends, one for each color.
const SHAPES = [
  "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z", // circle
  "M-.9-.9H.9V.9H-.9Z", // square
  "M0-1.2L1.15.9H-1.15Z", // triangle
  "M0-1.3L1.3 0 0 1.3-1.3 0Z", // diamond
  "M0 1.2L1.15-.9H-1.15Z", // triangle, upside down
  "M-.4-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z", // plus
  "M-1.3-.4H1.3V.4H-1.3Z", // dash
  "M0-1.4L.4-.4 1.4 0 .4.4 0 1.4-.4.4-1.4 0-.4-.4Z", // star
];
const count = (n) => n.toLocaleString("en-US");

function el(tag, attributes = {}, ...children) {
  const node = /^(svg|path|text)$/.test(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

function unpack(text, Numbers) {
  return new Numbers(Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer);
}

function fractions(text) {
  return Float64Array.from(unpack(text, Int16Array), (one) => one / UNIT);
}

function shape(number, transform = "") {
  const look = number % SHAPES.length;
  return el("path", { d: SHAPES[look], fill: `var(--c${look})`, transform });
}

const symbol = (number) => el(
  "svg", { viewBox: "-1.5 -1.5 3 3", class: "symbol", "aria-hidden": "true" }, shape(number));

function button(text, onclick) {
  return el("button", { type: "button", class: "more", onclick }, text);
}

function slider(names, start, move) {
  const output = el("output", {}, names[start]);
  const last = names.length - 1;
  const input = el("input", { type: "range", min: 0, max: last, "aria-label": "Layer" });
  const tell = () => {
    output.textContent = names[input.value];
    input.setAttribute("aria-valuetext", names[input.value]);
  };
  input.value = start;
  input.addEventListener("input", () => {
    tell();
    move(Number(input.value));
  });
  tell();
  return el("div", {}, "Layer: ", output, input);
}

// Build a table; heads are pairs of text and class.
function table(attributes, heads, rows) {
  const cells = heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text));
  const head = el("thead", {}, el("tr", {}, ...cells));
  return el("table", attributes, head, el("tbody", {}, ...rows));
}

// Build a table of figures, with a name in the first column.
function figures({ heads, rows }) {
  return table({}, heads.map((head, i) => [head, i ? "number" : ""]),
    rows.map(([name, ...cells]) => el("tr", {}, el("th", { scope: "row" }, name),
      ...cells.map((cell) => el("td", { class: "number" }, cell)))));
}

function sentence(line) {
  return el("bdi", {}, line.before, " ", el("mark", {}, line.itself), " ", line.after);
}

// Build a concordance: sentences aligned at a word, with cosines if lines have them, and with a
// column of groups if `kind` names them, and of sources if lines have them.
function concordance(lines, kind = "") {
  const hasCosine = lines.length && "cosine" in lines[0];
  const hasOrigin = lines.length && lines[0].origin !== undefined;
  const rows = lines.map((line) => el("tr", line.attributes || {},
    ...(hasCosine ? [el("td", { class: "number" }, line.cosine.toFixed(3))] : []),
    ...(kind ? [el("td", {}, symbol(line.number), " ", line.label)] : []),
    ...(hasOrigin ? [el("td", { title: line.origin }, el("bdi", {}, line.origin))] : []),
    el("td", { class: "before" }, el("div", {}, el("bdi", {}, line.before))),
    el("td", { class: "word", title: line.itself }, el("mark", {}, line.itself)),
    el("td", { class: "after" }, el("bdi", {}, line.after))));
  const heads = [[hasCosine && "cosine", "number narrow"], [kind, "kind"],
    [hasOrigin && "source", "kind"], ["before", "number"], ["word", "word"], ["after", ""]]
    .filter(([head]) => head);
  return table({ class: "lines" }, heads, rows);
}

// Build the section with the map of a word's occurrences, its legend and lists.
function senses(data) {
  const names = ["controls", "facts", "legend", "near", "list", "layers"];
  const parts = Object.fromEntries(names.map((name) => [name, el("div", { class: name })]));
  const canvas = el("canvas", { tabindex: 0, role: "application", "aria-roledescription": "map" });
  const tip = el("div", { class: "tip", hidden: true });
  const live = el("p", { class: "live", "aria-live": "polite" });
  const box = el("input", { type: "search", placeholder: "text in the sentence", oninput: search });
  const help = el("p", { class: "quiet help" }, "Point at a dot to see its sentence. Click it to " +
    "see its nearest dots. Drag to list a region. Keys on the map: arrows, Enter, Escape.");
  const stage = el("div", { class: "stage" },
    el("div", {}, el("div", { class: "map" }, canvas, tip), help, live), parts.legend);

  let word; // The word on the map, unpacked.
  let view = data.views.length - 1; // The layer, or the mix.
  let coloring = 0; // Gold senses first, if there are any, then groups.
  let group = null; // The group to show, or null for all.
  let region = null; // The dots in the dragged region, or null.
  let pointed = -1;
  let chosen = -1;
  let drag = null;
  let isLong = false; // Whether the list shows all rows.
  let at = new Float64Array(0); // Positions of the dots in pixels: x, y, x, y, ...
  let frame = 0;

  const colors = () => word.views[view].colorings[coloring];
  const numberOf = (i) => (word.views.length ? colors().of[i] : 0);
  const labelOf = (i) => (word.views.length ? colors().labels[numberOf(i)] : "");
  const isShown = (i) => word.texts[i].includes(box.value.toLowerCase()) &&
    (group === null || numberOf(i) === group) && (region === null || region.has(i));
  const shown = () => [...word.before.keys()].filter(isShown);

  function lineOf(i) {
    const point = (dot) => () => { pointed = dot; draw(); };
    const attributes = {
      class: i === chosen ? "pick chosen" : "pick", "data-number": i,
      onclick: () => choose(i), onmouseenter: point(i), onmouseleave: point(-1),
    };
    return {
      before: word.before[i], itself: word.itself[i], after: word.after[i],
      number: numberOf(i), label: labelOf(i), attributes: word.views.length ? attributes : {},
      origin: word.origins.length ? word.origins[i] : undefined,
    };
  }

  function neighborsOf(i) {
    const { neighbors, cosines } = word.views[view];
    const n = neighbors.length / word.before.length;
    return [...neighbors.slice(i * n, (i + 1) * n)].map((other, j) => [other, cosines[i * n + j]]);
  }

  // Return the positions of the dots of a view, as large as fits, with the same scale on both axes.
  function pixels() {
    const { places } = word.views[view];
    const size = [canvas.clientWidth, canvas.clientHeight];
    const [x, y] = [0, 1].map((axis) => {
      const values = places.filter((_, i) => i % 2 === axis);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const room = size[axis] - 2 * MARGIN;
      return { middle: (low + high) / 2, scale: room / Math.max(high - low, 1e-9) };
    });
    const scale = Math.min(x.scale, y.scale);
    const middle = size.map((length) => length / 2);
    return places.map((value, i) => (i % 2
      ? middle[1] - (value - y.middle) * scale : middle[0] + (value - x.middle) * scale));
  }

  function draw() {
    if (!word.views.length) return;
    const ratio = window.devicePixelRatio || 1;
    const style = getComputedStyle(document.documentElement);
    const fills = SHAPES.map((_, i) => style.getPropertyValue(`--c${i}`).trim());
    const paths = SHAPES.map((shape) => new Path2D(shape));
    const pen = canvas.getContext("2d");
    const size = word.before.length > 500 ? 3.4 : 4.4;
    const dot = (i, larger, alpha) => {
      const look = numberOf(i) % SHAPES.length;
      const scale = ratio * size * larger;
      pen.setTransform(scale, 0, 0, scale, at[2 * i] * ratio, at[2 * i + 1] * ratio);
      pen.globalAlpha = alpha;
      pen.fillStyle = fills[look];
      pen.fill(paths[look]);
    };
    const outline = (path) => {
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.globalAlpha = 1;
      pen.strokeStyle = style.getPropertyValue("--text");
      pen.stroke(path);
    };
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    const strong = new Set(shown());
    word.before.forEach((_, i) => strong.has(i) || dot(i, 0.7, 0.13));
    strong.forEach((i) => dot(i, 1, 0.72));
    for (const [i] of chosen < 0 ? [] : neighborsOf(chosen)) {
      outline(new Path2D(`M${at[2 * chosen]} ${at[2 * chosen + 1]}L${at[2 * i]} ${at[2 * i + 1]}`));
      dot(i, 1.3, 1);
    }
    for (const i of [chosen, pointed].filter((one) => one >= 0)) {
      const ring = new Path2D();
      ring.arc(at[2 * i], at[2 * i + 1], size * 2.6, 0, 2 * Math.PI);
      dot(i, 1.7, 1);
      outline(ring);
    }
    if (drag && drag.isWide) {
      const frame = new Path2D();
      frame.rect(drag.x, drag.y, drag.toX - drag.x, drag.toY - drag.y);
      outline(frame);
    }
  }

  // Move the dots to their positions, at once or within 600 ms.
  function settle(isSlow = false) {
    if (!word.views.length) return;
    const [from, to, start] = [at, pixels(), performance.now()];
    const step = (now) => {
      const part = isSlow ? Math.min(1, Math.max(0, (now - start) / 600)) : 1;
      const eased = part * part * (3 - 2 * part);
      at = part < 1 ? to.map((value, i) => from[i] + (value - from[i]) * eased) : to;
      canvas.toggleAttribute("data-moving", part < 1);
      draw();
      if (part < 1) frame = requestAnimationFrame(step);
    };
    cancelAnimationFrame(frame);
    step(start);
  }

  function point(i) {
    if (i === pointed) return;
    pointed = i;
    tip.hidden = i < 0;
    if (i >= 0) {
      const line = lineOf(i);
      const [x, y] = [at[2 * i] + 12, at[2 * i + 1] + 12];
      const [left, up] = [canvas.clientWidth - x + 24, canvas.clientHeight - y + 24];
      tip.replaceChildren(
        el("div", { class: "quiet" }, symbol(line.number), " ", line.label,
          line.origin ? ` · ${line.origin}` : ""), sentence(line));
      Object.assign(tip.style, x > left ? { left: "", right: `${left}px` }
        : { left: `${x}px`, right: "" });
      Object.assign(tip.style, y > up ? { top: "", bottom: `${up}px` }
        : { top: `${y}px`, bottom: "" });
    }
    draw();
  }

  function choose(i) {
    chosen = i;
    render();
  }

  function search() {
    region = null;
    render();
  }

  function clear() {
    [group, region, box.value] = [null, null, ""];
    point(-1);
    choose(-1);
  }

  // Return the visible dot that is nearest to a position, in any direction or in one.
  function nearestDot(x, y, far = Infinity, towards = null) {
    let [nearest, least] = [-1, far];
    for (const i of shown()) {
      const [right, down] = [at[2 * i] - x, at[2 * i + 1] - y];
      const distance = Math.hypot(right, down);
      const ahead = towards ? right * towards[0] + down * towards[1] : Infinity;
      if (distance < least && ahead > 0.7 * distance) [nearest, least] = [i, distance];
    }
    return nearest;
  }

  function place(event) {
    const { left, top } = canvas.getBoundingClientRect();
    return [event.clientX - left - canvas.clientLeft, event.clientY - top - canvas.clientTop];
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const [x, y] = place(event);
    drag = { x, y, toX: x, toY: y, isWide: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (!drag) return point(nearestDot(x, y, NEAR));
    const isWide = drag.isWide || Math.hypot(x - drag.x, y - drag.y) > 5;
    Object.assign(drag, { toX: x, toY: y, isWide });
    if (isWide) point(-1);
    draw();
  });
  canvas.addEventListener("pointerup", () => {
    if (!drag) return;
    const { x, y, toX, toY, isWide } = drag;
    const isBetween = (value, one, other) => (value - one) * (value - other) <= 0;
    drag = null;
    if (!isWide) return choose(nearestDot(x, y, NEAR));
    region = null;
    region = new Set(shown().filter((i) =>
      isBetween(at[2 * i], x, toX) && isBetween(at[2 * i + 1], y, toY)));
    render();
  });
  canvas.addEventListener("pointercancel", () => { drag = null; draw(); });
  canvas.addEventListener("pointerleave", () => drag || point(-1));
  canvas.addEventListener("blur", () => point(-1));
  canvas.addEventListener("keydown", (event) => {
    const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key in arrows) {
      const found = pointed < 0 ? nearestDot(canvas.clientWidth / 2, canvas.clientHeight / 2)
        : nearestDot(at[2 * pointed], at[2 * pointed + 1], Infinity, arrows[event.key]);
      if (found >= 0) point(found);
      const [label, text] = [...tip.childNodes].map((node) => node.textContent.trim());
      live.textContent = pointed < 0 ? "" : `${label}: ${text}`;
    } else if (event.key === "Enter" || event.key === " ") choose(pointed);
    else if (event.key === "Escape") clear();
    else return;
    event.preventDefault();
  });

  function legend() {
    const { name, labels, typical, note } = colors();
    const counts = labels.map(() => 0);
    for (const number of colors().of) counts[number] += 1;
    const items = [...labels.keys()].filter((number) => counts[number]).map((number) => el("li", {},
      el("button", { type: "button", "aria-pressed": String(group === number), onclick: () => {
        group = group === number ? null : number;
        region = null;
        render();
      } }, symbol(number), el("span", {}, labels[number]),
      el("span", { class: "number" }, count(counts[number])),
      el("span", { class: "typical" }, (typical[number] || []).join(", ")))));
    parts.legend.replaceChildren(
      el("h3", {}, name), el("ul", {}, ...items), el("p", { class: "quiet" }, note));
  }

  function lists() {
    const found = shown();
    const kind = word.views.length ? colors().kind : "";
    const limits = [box.value && `with “${box.value}”`, region && "in the region",
      group !== null && `of ${colors().labels[group]}`].filter(Boolean);
    const all = limits.length ? ` of ${count(word.before.length)}` : "";
    const rows = isLong ? found : found.slice(0, FIRST_ROWS);
    parts.list.replaceChildren(
      el("h3", {}, `${count(found.length)}${all} occurrences ${limits.join(", ")}`.trim()),
      ...(limits.length ? [button("Clear", clear)] : []), concordance(rows.map(lineOf), kind),
      ...(rows.length < found.length
        ? [button(`Show all ${count(found.length)}`, () => { isLong = true; lists(); })] : []));
    if (chosen < 0) return parts.near.replaceChildren();
    const lines = neighborsOf(chosen).map(([i, cosine]) => ({ ...lineOf(i), cosine }));
    parts.near.replaceChildren(el("h3", {}, `Nearest by cosine, ${data.views[view]}`),
      el("p", {}, symbol(numberOf(chosen)), " ", sentence(lineOf(chosen))),
      concordance(lines, kind));
  }

  // Build the table of the distances of labels.
  function changes() {
    return [el("h3", {}, `Distances of ${word.views[view].colorings[0].name}`),
      el("p", { class: "quiet" }, word.changes.note),
      el("div", { class: "scroll" }, figures(word.changes))];
  }

  function layers() {
    parts.layers.replaceChildren(
      el("h3", {}, "All layers"), el("div", { class: "scroll" }, figures(word.table)),
      ...(word.changes.rows.length ? changes() : []));
  }

  function render() {
    const isMap = word.views.length > 0;
    stage.hidden = parts.layers.hidden = !isMap;
    parts.list.hidden = !word.before.length;
    parts.facts.replaceChildren(el("p", { class: isMap ? "quiet" : "notice" },
      isMap ? word.views[view].facts : word.notice));
    lists();
    if (!isMap) return;
    canvas.setAttribute("aria-label", `Map of ${count(word.before.length)} occurrences of ` +
      `${word.word}, ${data.views[view]}. Arrow keys go from dot to dot, Enter shows the nearest ` +
      "dots, Escape clears. The lists below contain the same as text.");
    legend();
    layers();
    draw();
  }

  function show(one) {
    const views = one.views.map((each) => ({
      ...each, places: fractions(each.places), neighbors: unpack(each.neighbors, Uint16Array),
      cosines: fractions(each.cosines),
      colorings: each.colorings.map((by) => ({ ...by, of: unpack(by.of, Uint16Array) })),
    }));
    const texts = one.before.map(
      (before, i) => [before, one.itself[i], one.after[i], one.origins[i] || ""]
        .join(" ").toLowerCase());
    word = { ...one, views, texts };
    [group, region, chosen, pointed, isLong, coloring] = [null, null, -1, -1, false, 0];
    tip.hidden = true;
    live.textContent = "";
    if (views.length) at = pixels();
    controls();
    render();
  }

  function controls() {
    const words = data.words.map((one) => el("label", {},
      el("input", { type: "radio", name: "word", checked: one.word === word.word, onchange: () => {
        show(one);
        parts.controls.querySelector(":checked").focus();
      } }), `${one.word} `, el("small", {}, count(one.total))));
    const children = [el("fieldset", {}, el("legend", {}, "Word"), ...words)];
    if (word.views.length) {
      children.push(slider(data.views, view, (next) => {
        [view, group] = [next, coloring ? null : group];
        render();
        settle(!matchMedia("(prefers-reduced-motion: reduce)").matches);
      }), el("label", {}, "Filter", box));
      const choices = word.views[0].colorings.map((by, i) => el("option", { value: i }, by.name));
      const pick = el("select", { onchange: () => {
        [coloring, group] = [Number(pick.value), null];
        render();
      } }, ...choices);
      if (choices.length > 1) children.push(el("label", {}, "Color by", pick));
    }
    parts.controls.replaceChildren(...children);
  }

  show(data.words[0]);
  new ResizeObserver(() => settle()).observe(canvas);
  for (const media of ["print", "(prefers-color-scheme: dark)"]) {
    matchMedia(media).addEventListener("change", () => draw());
  }
  return el("section", { class: "senses" }, parts.controls, parts.facts, stage, parts.near,
    parts.list, parts.layers);
}

// Build the section of two sentences: a table whose colors show the cosines.
function heat(data) {
  const matrices = data.cosines.map(fractions);
  const [body, scale] = [el("tbody"), el("p", { class: "quiet" })];
  const show = (view) => {
    const matrix = matrices[view];
    const [low, high] = [Math.min(...matrix), Math.max(...matrix)];
    const rows = data.rows.map((token, i) => {
      const row = [...matrix.slice(i * data.columns.length, (i + 1) * data.columns.length)];
      const cells = row.map((value) => {
        const strength = high > low ? (value - low) / (high - low) : 1;
        return el("td", {
          class: value === Math.max(...row) ? "best" : "",
          style: `background: rgba(var(--heat), ${(0.9 * strength).toFixed(3)});` +
            (strength > 0.7 ? "color: var(--page)" : ""),
        }, value.toFixed(2));
      });
      return el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, token)), ...cells);
    });
    body.replaceChildren(...rows);
    scale.textContent = `Cosines from ${low.toFixed(3)} (pale) to ${high.toFixed(3)} (strong); ` +
      "the largest of a row has a frame.";
  };
  show(matrices.length - 1);
  const heads = data.columns.map((token) => el("th", { scope: "col" }, el("span", {}, token)));
  return el("section", {}, el("h2", {}, "Two sentences"),
    el("div", { class: "controls" }, slider(data.views, matrices.length - 1, show)), scale,
    el("div", { class: "scroll" }, el("table", { class: "heat" },
      el("thead", {}, el("tr", {}, el("td"), ...heads)), body)));
}

// Build a section of rows with names, a figure, and a bar for it.
function bars(data) {
  const rows = data.rows.map(({ names: [name, ...others], figure, share }, i) => {
    const isFirst = !i || name !== data.rows[i - 1].names[0];
    const rowspan = data.rows.filter((row) => row.names[0] === name).length;
    return el("tr", { class: isFirst ? "first" : "" },
      ...(isFirst ? [el("th", { scope: "rowgroup", rowspan }, name)] : []),
      ...others.map((other) => el("th", { scope: "row" }, other)),
      el("td", { class: "number" }, figure),
      el("td", { class: "bar" }, el("div", { style: `width: ${100 * share}%` })));
  });
  const heads = [...data.columns.map((name) => [name, ""]), [data.measure, "number"], ["", ""]];
  const whole = el("div", { class: "scroll", hidden: !rows.length },
    table({ class: "bars" }, heads, rows));
  return el("section", {}, el("h2", {}, data.heading),
    el("p", { class: "quiet" }, data.note), whole);
}

// Build the section of the nearest tokens to a token.
function neighbors(data) {
  return el("section", {}, el("h2", {}, data.heading), el("p", {}, sentence(data)),
    concordance(data.lines));
}

// Build the section of a curve: a line for each kind of damage, and its points as a table.
function curve(data) {
  const at = ([x, y]) => `${60 + 720 * x} ${300 - 280 * y}`;
  const rows = data.lines.flatMap(({ name, points }, i) => points.map(([, , value, share]) =>
    el("tr", {}, el("th", { scope: "row" }, symbol(i), ` ${name}`),
      ...[share, value].map((text) => el("td", { class: "number" }, text)))));
  return el("section", {}, el("h2", {}, data.heading),
    el("svg", { class: "curve", viewBox: "0 0 820 330", "aria-hidden": "true" },
      ...data.up.map(([y]) => el("path", { d: `M${at([0, y])}L${at([1, y])}` })),
      ...data.up.map(([y, text]) => el("text", { x: 10, y: 305 - 280 * y }, text)),
      ...data.across.map(([x, text]) => el("text", { x: 45 + 720 * x, y: 325 }, text)),
      ...data.lines.flatMap(({ points }, i) => [
        el("path", { d: `M${points.map(at).join("L")}`, style: `stroke: var(--c${i % 8})` }),
        ...points.map((point) => shape(i, `translate(${at(point)}) scale(5)`))])),
    table({}, [["damage", ""], ["damaged words", "number"], ["score", "number"]], rows));
}

const data = JSON.parse(document.getElementById("data").textContent);
document.body.append(el("header", {},
  el("h1", {}, data.title), el("p", { class: "quiet" }, data.about)));
for (const part of data.sections) {
  document.body.append({ senses, heat, bars, neighbors, curve }[part.type](part));
}
