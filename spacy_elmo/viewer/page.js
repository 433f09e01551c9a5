"use strict";
// The page: this script reads the JSON that stands before it and builds everything as DOM nodes.
// Text from corpora becomes text nodes and attributes, never HTML.

const UNIT = 32000; // what 1.0 is in packed fractions
const MARGIN = 24; // of the map, in pixels
const NEAR = 10; // how near to a dot the pointer must be, in pixels
const FIRST_ROWS = 100; // of a list of sentences, until all are asked for
// Paths from -1 to 1, for dots and legends.
const SHAPES = [
  "M1 0A1 1 0 1 1-1 0A1 1 0 1 1 1 0Z", // circle
  "M-.9-.9H.9V.9H-.9Z", // square
  "M0-1.2L1.15.9H-1.15Z", // triangle
  "M0-1.3L1.3 0 0 1.3-1.3 0Z", // diamond
  "M0 1.2L1.15-.9H-1.15Z", // triangle, upside down
  "M-.4-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z", // plus
  "M-1.2-.3H1.2V.3H-1.2Z", // dash
  "M0-1.4L.4-.4 1.4 0 .4.4 0 1.4-.4.4-1.4 0-.4-.4Z", // star
];
const COLORS = 8;
const count = (n) => n.toLocaleString("en-US");
const cosine = (x) => x.toFixed(3);
const percent = (x) => (100 * x).toFixed(1) + " %";

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
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
const fractions = (text) => Float64Array.from(unpack(text, Int16Array), (one) => one / UNIT);

function symbol(number) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", SHAPES[number % SHAPES.length]);
  path.setAttribute("fill", `var(--c${number % COLORS})`);
  svg.setAttribute("viewBox", "-1.5 -1.5 3 3");
  svg.setAttribute("class", "symbol");
  svg.setAttribute("aria-hidden", "true");
  svg.append(path);
  return svg;
}

function slider(names, start, move) {
  const output = el("output", {}, names[start]);
  const input = el("input", {
    type: "range", min: 0, max: names.length - 1, step: 1, value: start, "aria-label": "Layer",
    "aria-valuetext": names[start],
    oninput: () => {
      output.textContent = names[input.value];
      input.setAttribute("aria-valuetext", names[input.value]);
      move(Number(input.value));
    },
  });
  return el("label", {}, "Layer: ", el("span", {}, output), input);
}

function table(attributes, heads, rows) {
  const head = el("tr", {}, ...heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text)));
  return el("table", attributes, el("thead", {}, head), el("tbody", {}, ...rows));
}

// Sentences with a word in the middle, as a concordance has them. A line has before, itself,
// after, perhaps a cosine, and a symbol and label.
function concordance(lines, hasCosine, labels) {
  const widths = el("colgroup", {},
    ...(hasCosine ? [el("col", { style: "width: 5rem" })] : []),
    ...(labels ? [el("col", { style: "width: 9rem" })] : []),
    el("col"), el("col", { style: "width: 8rem" }), el("col"));
  const rows = lines.map((line) => el("tr", line.attributes || {},
    ...(hasCosine ? [el("td", { class: "number" }, cosine(line.cosine))] : []),
    ...(labels ? [el("td", {}, symbol(line.number), " ", line.label)] : []),
    el("td", { class: "before" }, el("div", {}, el("bdi", {}, line.before))),
    el("td", { class: "word", title: line.itself }, el("mark", {}, line.itself)),
    el("td", { class: "after" }, el("bdi", {}, line.after))));
  const heads = [
    ...(hasCosine ? [["cosine", "number"]] : []), ...(labels ? [[labels, ""]] : []),
    ["before", "number"], ["word", "word"], ["after", ""]];
  const whole = table({ class: "lines" }, heads, rows);
  whole.prepend(widths);
  return whole;
}

function senses(data) {
  const section = el("section", { class: "senses" });
  const parts = Object.fromEntries(["controls", "facts", "legend", "near", "list", "layers"].map(
    (name) => [name, el("div", { class: name === "controls" ? name : "" })]));
  const canvas = el("canvas", { tabindex: 0, role: "application", "aria-roledescription": "map" });
  const tip = el("div", { class: "tip", hidden: true });
  const live = el("p", { class: "quiet", "aria-live": "polite" });
  const help = el("p", { class: "quiet help" },
    "Point at a dot for its sentence, click for its nearest ones, drag for the sentences of a " +
    "region. Keys on the map: arrows, Enter, Escape.");
  const stage = el("div", { class: "stage" },
    el("div", {}, el("div", { class: "map" }, canvas, tip), help, live),
    el("div", {}, el("h3", {}, "Groups"), parts.legend));
  section.append(parts.controls, parts.facts, stage, parts.near, parts.list, parts.layers);

  let word; // the one that is shown: its data, unpacked
  let view = data.views.length - 1;
  let colorBy = "groups";
  let filter = "";
  let only = null; // a group, or all
  let region = null; // the numbers of dots that were dragged over, or all
  let pointed = -1;
  let chosen = -1;
  let drag = null;
  let showAll = false;
  let at = new Float64Array(0); // where dots are drawn, in pixels: x, y
  let motion = 0;

  const kinds = () => (colorBy === "gold" ? word.gold : word.views[view].of);
  const label = (number) => (colorBy === "gold" ? word.goldLabels[number] : `group ${number + 1}`);
  const isShown = (i) => word.text[i].includes(filter) && (only === null || kinds()[i] === only) &&
    (region === null || region.has(i));
  const shown = () => word.before.map((_, i) => i).filter(isShown);

  function unpacked(one) {
    return {
      ...one,
      text: one.before.map((before, i) => `${before} ${one.itself[i]} ${one.after[i]}`.toLowerCase()),
      gold: one.gold && unpack(one.gold.of, Uint16Array),
      goldLabels: one.gold && one.gold.labels,
      views: one.views.map((each) => ({
        ...each, places: fractions(each.places), of: unpack(each.of, Uint16Array),
        neighbors: unpack(each.neighbors, Uint16Array), cosines: fractions(each.cosines),
      })),
    };
  }

  // Where the dots of a view belong: as large as fits, the same scale for both axes.
  function pixels(number) {
    const { places } = word.views[number];
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    let [farX, farY] = [1e-9, 1e-9];
    for (let i = 0; i < places.length; i += 2) {
      farX = Math.max(farX, Math.abs(places[i]));
      farY = Math.max(farY, Math.abs(places[i + 1]));
    }
    const scale = Math.min((width / 2 - MARGIN) / farX, (height / 2 - MARGIN) / farY);
    return places.map((value, i) => (i % 2 ? height / 2 - value * scale : width / 2 + value * scale));
  }

  function draw() {
    if (!word || !word.views.length) return;
    const ratio = window.devicePixelRatio || 1;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    const context = canvas.getContext("2d");
    const paths = SHAPES.map((shape) => new Path2D(shape));
    const colors = SHAPES.map((_, i) => color(`--c${i}`));
    const dot = (i, size, alpha) => {
      const number = kinds()[i];
      context.setTransform(ratio * size, 0, 0, ratio * size, at[2 * i] * ratio, at[2 * i + 1] * ratio);
      context.globalAlpha = alpha;
      context.fillStyle = colors[number % COLORS];
      context.fill(paths[number % SHAPES.length]);
    };
    const plain = () => {
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.globalAlpha = 1;
      context.strokeStyle = color("--text");
      context.lineWidth = 1;
    };
    const strong = new Set(shown());
    const size = word.before.length > 500 ? 3.2 : 4.2;
    word.before.forEach((_, i) => strong.has(i) || dot(i, size * 0.7, 0.13));
    strong.forEach((i) => dot(i, size, 0.72));
    plain();
    if (chosen >= 0) {
      for (const j of neighbors(chosen)) {
        context.beginPath();
        context.moveTo(at[2 * chosen], at[2 * chosen + 1]);
        context.lineTo(at[2 * j], at[2 * j + 1]);
        context.stroke();
      }
      for (const j of neighbors(chosen)) dot(j, size * 1.3, 1);
    }
    for (const i of new Set([chosen, pointed])) {
      if (i < 0) continue;
      dot(i, size * 1.7, 1);
      plain();
      context.lineWidth = 1.5;
      context.beginPath();
      context.arc(at[2 * i], at[2 * i + 1], size * 2.6, 0, 2 * Math.PI);
      context.stroke();
    }
    if (drag && drag.wide) {
      plain();
      context.setLineDash([4, 3]);
      context.strokeRect(drag.x, drag.y, drag.toX - drag.x, drag.toY - drag.y);
      context.setLineDash([]);
    }
  }

  function move() {
    const [from, to] = [at, pixels(view)];
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const began = performance.now();
    cancelAnimationFrame(motion);
    const step = (now) => {
      const done = still ? 1 : Math.min(1, Math.max(0, (now - began) / 600));
      const eased = done * done * (3 - 2 * done);
      at = to.map((value, i) => from[i] + (value - from[i]) * eased);
      canvas.toggleAttribute("data-moving", done < 1);
      draw();
      if (done < 1) motion = requestAnimationFrame(step);
    };
    step(began);
  }

  function settle() {
    cancelAnimationFrame(motion);
    canvas.removeAttribute("data-moving");
    if (word && word.views.length) at = pixels(view);
    draw();
  }

  function neighbors(i) {
    const each = word.views[view].neighbors.length / word.before.length;
    return [...word.views[view].neighbors.slice(i * each, (i + 1) * each)];
  }

  const lineOf = (i) => ({
    before: word.before[i], itself: word.itself[i], after: word.after[i],
    number: kinds()[i], label: label(kinds()[i]),
    attributes: {
      class: i === chosen ? "pick chosen" : "pick", "data-number": i,
      onclick: () => choose(i), onmouseenter: () => { pointed = i; draw(); },
      onmouseleave: () => { pointed = -1; draw(); },
    },
  });

  function point(i) {
    if (i === pointed) return;
    pointed = i;
    tip.hidden = i < 0;
    if (i >= 0) {
      tip.replaceChildren(
        el("div", { class: "quiet" }, symbol(kinds()[i]), " ", label(kinds()[i])),
        el("bdi", {}, word.before[i], " ", el("mark", {}, word.itself[i]), " ", word.after[i]));
      const [x, y] = [at[2 * i], at[2 * i + 1]];
      const [right, low] = [x > canvas.clientWidth / 2, y > canvas.clientHeight / 2];
      Object.assign(tip.style, {
        left: right ? "" : `${x + 12}px`, right: right ? `${canvas.clientWidth - x + 12}px` : "",
        top: low ? "" : `${y + 12}px`, bottom: low ? `${canvas.clientHeight - y + 12}px` : "",
      });
    }
    draw();
  }

  function choose(i) {
    chosen = i;
    render();
    if (i >= 0) live.textContent = `${label(kinds()[i])}: ${word.before[i]} ${word.itself[i]} ${word.after[i]}`;
    else live.textContent = "";
  }

  function clear() {
    [only, region, chosen, filter] = [null, null, -1, ""];
    const box = section.querySelector("input[type=search]");
    if (box) box.value = "";
    point(-1);
    choose(-1);
  }

  // The shown dot that is nearest to a place, in a direction or in any.
  function nearestDot(x, y, far = Infinity, towards = null) {
    let [best, least] = [-1, far];
    for (const i of shown()) {
      const [dx, dy] = [at[2 * i] - x, at[2 * i + 1] - y];
      const distance = Math.hypot(dx, dy);
      if (towards && (i === pointed || dx * towards[0] + dy * towards[1] < 0.7 * distance + 0.01)) continue;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  function place(event) {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left - canvas.clientLeft, event.clientY - box.top - canvas.clientTop];
  }
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const [x, y] = place(event);
    drag = { x, y, toX: x, toY: y, wide: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (!drag) return point(nearestDot(x, y, NEAR));
    Object.assign(drag, { toX: x, toY: y });
    drag.wide = drag.wide || Math.hypot(x - drag.x, y - drag.y) > 5;
    if (drag.wide) point(-1);
    draw();
  });
  canvas.addEventListener("pointerup", () => {
    const ended = drag;
    drag = null;
    if (!ended) return;
    if (!ended.wide) return choose(nearestDot(ended.x, ended.y, NEAR));
    const [left, right] = [Math.min(ended.x, ended.toX), Math.max(ended.x, ended.toX)];
    const [top, bottom] = [Math.min(ended.y, ended.toY), Math.max(ended.y, ended.toY)];
    region = null;
    region = new Set(shown().filter((i) => at[2 * i] >= left && at[2 * i] <= right &&
      at[2 * i + 1] >= top && at[2 * i + 1] <= bottom));
    render();
  });
  canvas.addEventListener("pointercancel", () => { drag = null; draw(); });
  canvas.addEventListener("pointerleave", () => drag || point(-1));
  canvas.addEventListener("blur", () => point(-1));
  canvas.addEventListener("keydown", (event) => {
    const towards = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (towards) {
      const from = pointed >= 0 ? [at[2 * pointed], at[2 * pointed + 1], Infinity, towards]
        : [canvas.clientWidth / 2, canvas.clientHeight / 2];
      const found = nearestDot(...from);
      if (found >= 0) {
        point(found);
        live.textContent = tip.textContent;
      }
    } else if (event.key === "Enter" || event.key === " ") choose(pointed);
    else if (event.key === "Escape") clear();
    else return;
    event.preventDefault();
  });

  function legend() {
    const counts = new Map();
    for (const number of kinds()) counts.set(number, (counts.get(number) || 0) + 1);
    const { groups } = word.views[view];
    const items = [...counts.keys()].sort((a, b) => a - b).map((number) => {
      const words = colorBy === "gold" ? [] : groups.find((one) => one.number === number).words;
      return el("li", {}, el("button", {
        type: "button", "aria-pressed": String(only === number),
        onclick: () => { only = only === number ? null : number; render(); },
      }, symbol(number), el("span", {}, label(number)), el("span", { class: "number" }, count(counts.get(number))),
      el("span", { class: "typical" }, words.join(", "))));
    });
    parts.legend.replaceChildren(el("ul", { class: "legend" }, ...items),
      el("p", { class: "quiet" }, colorBy === "gold" ? "Gold senses." :
        "Words that stand within five tokens rather than around the others. Click a group to see it alone."));
  }

  function facts() {
    const here = word.views[view];
    const drawn = word.before.length < word.total
      ? `${count(word.before.length)} of ${count(word.total)} occurrences, drawn evenly`
      : `${count(word.total)} occurrences`;
    const lines = [drawn];
    if (here.variance === null) lines.push("t-SNE: distances between groups mean little");
    else if (here.variance) lines.push(`the two axes show ${percent(here.variance)} of the variance`);
    else lines.push("here all occurrences have the same vector: this layer does not see the context");
    if (here.silhouette !== null) lines.push(`best silhouette ${cosine(here.silhouette)}`);
    if (here.agreement) {
      lines.push(`purity ${percent(here.agreement.purity)}`, `adjusted Rand index ${cosine(here.agreement.adjusted_rand)}`);
    }
    parts.facts.replaceChildren(el("p", { class: "quiet facts" }, lines.join("; ") + "."));
  }

  function layers() {
    const hasGold = word.views.some((one) => one.agreement);
    const dash = (value, format) => el("td", { class: "number" }, value === null ? "-" : format(value));
    const rows = word.views.map((one, i) => el("tr", {},
      el("th", { scope: "row" }, data.views[i]), dash(one.variance, percent), dash(one.groups.length, count),
      dash(one.silhouette, cosine), ...(hasGold
        ? [dash(one.agreement.purity, percent), dash(one.agreement.adjusted_rand, cosine)] : [])));
    const names = ["variance shown", "groups", "silhouette", ...(hasGold ? ["purity", "adjusted Rand index"] : [])];
    parts.layers.replaceChildren(el("h3", {}, "All layers"),
      el("div", { class: "scroll" }, table({}, [["", ""], ...names.map((name) => [name, "number"])], rows)));
  }

  function lists() {
    const found = shown();
    const named = colorBy === "gold" ? "sense" : "group";
    const limits = [filter && `with “${filter}”`, only !== null && `of ${label(only)}`, region && "in the region"].filter(Boolean);
    const rows = showAll ? found : found.slice(0, FIRST_ROWS);
    const heading = `${limits.length ? `${count(found.length)} of ${count(word.before.length)}` : count(found.length)} occurrences ${limits.join(", ")}`;
    parts.list.replaceChildren(el("h3", { class: "found" }, heading.trim()),
      ...(limits.length ? [el("button", { type: "button", class: "more", onclick: clear }, "Show all again")] : []),
      concordance(rows.map(lineOf), false, word.views.length ? named : ""),
      ...(rows.length < found.length
        ? [el("button", { type: "button", class: "more", onclick: () => { showAll = true; lists(); } },
          `Show all ${count(found.length)}`)] : []));
    parts.near.replaceChildren();
    if (chosen < 0) return;
    const near = neighbors(chosen);
    const start = chosen * near.length;
    const lines = near.map((j, place) => ({ ...lineOf(j), cosine: word.views[view].cosines[start + place] }));
    parts.near.append(el("h3", {}, `Nearest by cosine, ${data.views[view]}`),
      el("p", { class: "chosen" }, symbol(kinds()[chosen]), " ", el("bdi", {}, word.before[chosen], " ",
        el("mark", {}, word.itself[chosen]), " ", word.after[chosen])),
      concordance(lines, true, named));
  }

  function render() {
    const isEmpty = !word.views.length;
    stage.hidden = isEmpty;
    if (isEmpty) {
      parts.facts.replaceChildren(el("p", { class: "notice" }, word.total
        ? `“${word.word}” occurs once: there is nothing to compare it with.`
        : `“${word.word}” does not occur in this text.`));
      for (const name of ["near", "list", "layers"]) parts[name].replaceChildren();
      if (word.total) lists();
      return;
    }
    canvas.setAttribute("aria-label", `Map of ${count(word.before.length)} occurrences of ${word.word}, ` +
      `${data.views[view]}. Arrow keys go from dot to dot, Enter shows the nearest ones, Escape clears. ` +
      "The list below says the same in words.");
    legend();
    facts();
    layers();
    lists();
    draw();
  }

  function show(one) {
    word = unpacked(one);
    [only, region, chosen, pointed, showAll] = [null, null, -1, -1, false];
    colorBy = word.gold ? "gold" : "groups";
    controls();
    tip.hidden = true;
    live.textContent = "";
    render();
    settle();
  }

  function controls() {
    const choices = data.words.map((one, i) => el("label", {},
      el("input", { type: "radio", name: "word", value: i, checked: one.word === word.word, onchange: () => {
        show(one);
        parts.controls.querySelectorAll("input[type=radio]")[i].focus();
      } }), `${one.word} `, el("span", {}, count(one.total))));
    const box = el("input", { type: "search", placeholder: "text in the sentence", oninput: () => {
      filter = box.value.toLowerCase();
      region = null;
      render();
    } });
    box.value = filter;
    const parts_ = [el("fieldset", {}, el("legend", {}, "Word"), el("div", { class: "words" }, ...choices))];
    if (word.views.length) {
      parts_.push(slider(data.views, view, (next) => {
        [view, only] = [next, colorBy === "gold" ? only : null];
        render();
        move();
      }), el("label", {}, "Filter", box));
    }
    if (word.gold) {
      parts_.push(el("label", {}, "Color by", el("select", { onchange: (event) => {
        [colorBy, only] = [event.target.value, null];
        render();
      } }, el("option", { value: "gold" }, "gold senses"), el("option", { value: "groups" }, "groups"))));
    }
    parts.controls.replaceChildren(...parts_);
  }

  if (data.words.length) show(data.words[0]);
  new ResizeObserver(settle).observe(canvas);
  for (const query of ["print", "(prefers-color-scheme: dark)"]) matchMedia(query).addEventListener("change", settle);
  addEventListener("beforeprint", settle);
  return section;
}

function heat(data) {
  const matrices = data.cosines.map(fractions);
  const width = data.columns.length;
  const body = el("tbody");
  const scale = el("p", { class: "quiet" });
  function show(view) {
    const matrix = matrices[view];
    const [low, high] = [Math.min(...matrix), Math.max(...matrix)];
    body.replaceChildren(...data.rows.map((token, i) => {
      const row = [...matrix.slice(i * width, (i + 1) * width)];
      const cells = row.map((value) => {
        const strength = high > low ? (value - low) / (high - low) : 1;
        return el("td", {
          class: value === Math.max(...row) ? "best" : "", "data-strength": strength > 0.55 ? "high" : "low",
          style: `background: rgba(var(--heat), ${(0.9 * strength).toFixed(3)});` +
            (strength > 0.55 ? "color: var(--page)" : ""),
        }, value.toFixed(2));
      });
      return el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, token)), ...cells);
    }));
    scale.textContent = `Cosines, from ${cosine(low)} (pale) to ${cosine(high)}; the largest of a row has a frame.`;
  }
  show(matrices.length - 1);
  const head = el("tr", {}, el("td"), ...data.columns.map((token) => el("th", { scope: "col" }, el("span", {}, token))));
  return el("section", {}, el("h2", {}, "Two sentences"),
    el("div", { class: "controls" }, slider(data.views, matrices.length - 1, show)), scale,
    el("div", { class: "scroll" }, el("table", { class: "heat" }, el("thead", {}, head), body)));
}

// Bars with their figures: rows of names, a value, and what it is called.
function bars(data) {
  const rows = data.rows.map((row, i) => el("tr", { class: i && row.names[0] !== data.rows[i - 1].names[0] ? "start" : "" },
    ...row.names.map((name) => el("th", { scope: "row" }, name)),
    el("td", { class: "number" }, row.figure),
    el("td", { class: "bar" }, el("div", { style: `width: ${100 * row.share}%` }))));
  const heads = [...data.columns.map((name) => [name, ""]), [data.measure, "number"], ["", ""]];
  return el("section", {}, el("h2", {}, data.heading), ...data.notes.map((note) => el("p", { class: "quiet" }, note)),
    ...(rows.length ? [table({ class: "bars" }, heads, rows)] : []));
}

function neighbors(data) {
  return el("section", {}, el("h2", {}, data.heading),
    el("p", {}, el("bdi", {}, data.before, " ", el("mark", {}, data.itself), " ", data.after)),
    data.lines.length ? concordance(data.lines, true, "") : el("p", { class: "notice" }, data.empty));
}

const SECTIONS = { senses, heat, bars, neighbors };
const data = JSON.parse(document.getElementById("data").textContent);
document.body.append(el("header", {}, el("h1", {}, data.title),
  ...data.about.map((line) => el("p", { class: "about" }, line))));
for (const section of data.sections) document.body.append(SECTIONS[section.type](section));
dispatchEvent(new Event("resize"));
